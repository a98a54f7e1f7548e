// An agent on the official TypeScript SDK, of its first or second line. It takes its settings as an argument and commands as lines
// of JSON, and answers each with a line. When somebody has to sign in, it says `{"open": address}`, and is told where the browser
// was sent afterwards.

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

/** What the SDK asks of a program that has an id and a secret. It keeps what it is given. */
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
  // What the server has refused.
  invalidateCredentials = (what) => void (what === 'tokens' && delete this.kept.tokens)

  async redirectToAuthorization(address) {
    say({ open: address.href })
    this.returned = new URL((await hear()).returned).searchParams
  }
}

const provider = new Provider()

/** A connected client. It is signed in first if it has to be. */
async function connected() {
  // The second line begins as its default says, or looks first whether the server speaks the protocol without `initialize`.
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
  // The SDK learns from the server that its token has expired.
  later: async () => null,
}

for (let command = await hear(); command; command = await hear()) {
  await commands[command.do](command).then((result) => say({ result }), (error) => say(told(error)))
}
process.exit(0)
