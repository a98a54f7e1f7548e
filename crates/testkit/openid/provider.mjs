// The certified provider for tests: one tenant below a path, in memory, with its own pages for people.
// Its one argument is JSON: {"path": "/tenant-1", "clients": [...], "claims_in_token": bool}. It prints its port, and ends
// when its standard input does. Whoever signs in there as "SUBJECT,ADDRESS,VERIFIED[,PREFERRED]" is that person.
// POST /rotate changes its signing key.
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const { path, clients, claims_in_token: claimsInToken } = JSON.parse(process.argv[2]);

// The export holds the lock of the key. If Node.js collects garbage meanwhile, the end of the job that made the key waits for
// this lock for ever. So the export is of a copy of the key.
function key() {
  const privateKeyEncoding = { type: 'pkcs8', format: 'pem' };
  const publicKeyEncoding = { type: 'spki', format: 'pem' };
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048, privateKeyEncoding, publicKeyEncoding });
  return { ...createPrivateKey(privateKey).export({ format: 'jwk' }), use: 'sig', alg: 'RS256' };
}

function person(id) {
  const [, email, verified, preferred] = id.split(',');
  const name = email.split('@')[0];
  return {
    sub: id, email, email_verified: verified === 'true', preferred_username: preferred ?? email,
    given_name: name[0].toUpperCase() + name.slice(1), family_name: 'Example',
  };
}

function provider(issuer) {
  return new Provider(issuer, {
    clients,
    jwks: { keys: [key()] },
    cookies: { keys: ['for tests'] },
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['given_name', 'family_name', 'preferred_username'] },
    conformIdTokenClaims: !claimsInToken,
    findAccount: (_, id) => ({ accountId: id, claims: () => person(id) }),
    pkce: { required: () => true },
    features: { devInteractions: { enabled: true }, rpInitiatedLogout: { enabled: true } },
  });
}

let handle;
const server = createServer((request, response) => {
  if (request.method === 'POST' && request.url === '/rotate') {
    handle = provider(issuer).callback();
    response.end();
  } else if (request.url.startsWith(path)) {
    request.originalUrl = request.url;
    request.url = request.url.slice(path.length);
    handle(request, response);
  } else {
    response.writeHead(404).end();
  }
});
let issuer;
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address();
  issuer = `http://127.0.0.1:${port}${path}`;
  handle = provider(issuer).callback();
  console.log(`port ${port}`);
});
process.stdin.resume().on('end', () => process.exit(0));
