// oidc-provider from npm, with its own pages: node oidc_provider.mjs FOLDER PORT REDIRECT
import { pathToFileURL } from 'node:url';

const [folder, port, redirect] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(`${folder}/node_modules/oidc-provider/lib/index.js`));
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id: 'matins', client_secret: 'the secret of matins', redirect_uris: [redirect] }],
  claims: { openid: ['sub'], email: ['email', 'email_verified'] },
  findAccount: (context, id) => ({
    accountId: id, claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: id !== 'eve' }),
  }),
  pkce: { required: () => true },
});
provider.listen(Number(port), '127.0.0.1', () => console.log('listening'));
