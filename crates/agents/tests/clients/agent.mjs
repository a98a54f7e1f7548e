// An agent on the official TypeScript SDK, in its first or second major version. Its argument is the settings. Commands are lines of
// JSON, and the answer to each is a line. For a sign-in it prints `{"open": address}`, and reads the address of the redirect.

import { createInterface } from 'node:readline'

const settings = JSON.parse(process.argv[2])
const { Client, StreamableHTTPClientTransport, UnauthorizedError } = settings.line === 1
  ? {
      ...(await import('@modelcontextprotocol/sdk/client/index.js')),
      ...(await import('@modelcontextprotocol/sdk/client/streamableHttp.js')),
      ...(await import('@modelcontextprotocol/sdk/client/auth.js')),
    }
  : await import('@modelcontextprotocol/client')

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const say = (line) => console.log(JSON.stringify(line))
const hear = async () => {
  const { value, done } = await lines.next()
  return done ? null : JSON.parse(value)
}

/** The provider of the SDK for a program with an id and a secret. It stores the values of the SDK. */
class Provider {
  redirectUrl = settings.redirectUri
  clientMetadata = { client_name: 'Scribe', redirect_uris: [settings.redirectUri] }
  kept = { client: { client_id: settings.clientId, client_secret: settings.clientSecret } }
  returned = null

  state = () => (this.kept.state = crypto.randomUUID())
  clientInformation = () => this.kept.client
  saveClientInformation = (client) => void (this.kept.client = client)
  tokens = () => this.kept.tokens
  saveTokens = (tokens) => void (this.kept.tokens = tokens)
  codeVerifier = () => this.kept.verifier
  saveCodeVerifier = (verifier) => void (this.kept.verifier = verifier)
  discoveryState = () => this.kept.discovery
  saveDiscoveryState = (discovery) => void (this.kept.discovery = discovery)
  // Deletes the tokens that the server has refused.
  invalidateCredentials = (what) => void (what === 'tokens' && delete this.kept.tokens)

  async redirectToAuthorization(address) {
    say({ open: address.href })
    this.returned = new URL((await hear()).returned).searchParams
  }
}

const provider = new Provider()

/** Connects a client, and signs in first if the server requires it. */
async function connected() {
  // The second version begins with its default, or tests first if the server supports the protocol without `initialize`.
  const options = settings.line === 1 ? {} : { versionNegotiation: { mode: settings.mode } }
  for (let attempt = 0; ; attempt++) {
    const client = new Client({ name: 'Scribe', version: '1.2' }, options)
    const transport = new StreamableHTTPClientTransport(new URL(settings.serverUrl), { authProvider: provider })
    try {
      await client.connect(transport)
      return client
    } catch (error) {
      if (!(error instanceof UnauthorizedError) || attempt > 0) throw error
      const returned = provider.returned
      if (returned.get('state') !== provider.kept.state) throw new Error('The state is another.')
      if (returned.has('error')) throw new Error(`${returned.get('error')}: ${returned.get('error_description')}`)
      await transport.finishAuth(settings.line === 1 ? returned.get('code') : returned)
    }
  }
}

const told = (error) => ({ error: { name: error.constructor.name, code: error.code ?? null, message: error.message } })

let client
const commands = {
  connect: async () => {
    client = await connected()
    return { server: client.getServerVersion(), revision: client.getNegotiatedProtocolVersion?.() ?? null }
  },
  list: async () => (await client.listTools()).tools,
  call: async ({ tool, arguments: args }) => client.callTool({ name: tool, arguments: args }),
  // The SDK detects the expiry of its token by the answer of the server.
  later: async () => null,
}

for (let command = await hear(); command; command = await hear()) {
  await commands[command.do](command).then((result) => say({ result }), (error) => say(told(error)))
}
process.exit(0)
