'use strict';

// Validates OpenAPI documents, and values by their schemas.
//
// usage: node openapi.js FILE
// FILE has {"documents": {name: document}, "values": {document, schemas: {name: [[value, accepted]]}}}.
// Prints one JSON object: the names of the documents and how many values were checked, and what is wrong.

const { readFileSync } = require('node:fs');
const { Ajv2020 } = require('ajv/dist/2020');

const { documents, values } = JSON.parse(readFileSync(process.argv[2], 'utf8'));

(async () => {
    const { Validator } = await import('@seriousme/openapi-schema-validator');
    const seen = { valid: [], invalid: [], values: 0, wrong: [] };
    for (const [name, document] of Object.entries(documents)) {
        // it changes what it validates
        const { valid } = await new Validator().validate(structuredClone(document));
        seen[valid ? 'valid' : 'invalid'].push(name);
        // each schema by itself: the rules of OpenAPI take any object for one
        const ajv = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false });
        ajv.addVocabulary(['components']);
        ajv.addSchema({ components: document.components }, 'document');
        for (const schema of Object.keys(document.components?.schemas ?? {})) {
            if (!ajv.validateSchema(document.components.schemas[schema])) seen.invalid.push(`${name}: ${schema}`);
            const check = ajv.getSchema(`document#/components/schemas/${schema}`);
            for (const [value, accepted] of name === values.document ? (values.schemas[schema] ?? []) : []) {
                seen.values += 1;
                if (check(value) !== accepted) seen.wrong.push([schema, value, accepted]);
            }
        }
    }
    console.log(JSON.stringify(seen));
})().catch((error) => {
    console.error(error);
    process.exit(1);
});
