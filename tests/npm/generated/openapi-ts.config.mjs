export default {
    input: 'openapi.json',
    // Node.js wants the extensions of modules
    output: { path: 'hey', module: { extension: '.js' } },
    plugins: ['@hey-api/client-fetch'],
};
