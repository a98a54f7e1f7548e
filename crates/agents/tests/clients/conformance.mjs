// Runs the public conformance suite against a connector. A proxy adds the access token, since the suite does not sign in.
// Writes the result of each check of each scenario as JSON: `{run: {scenario: [{name, status, message}]}}`.

import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const { serverUrl, token } = JSON.parse(process.argv[2])
const { hostname, port, pathname } = new URL(serverUrl)
const LATEST = '@modelcontextprotocol/conformance'
const NEXT = 'conformance-next'
const RUNS = {
  latest: [LATEST, '--suite', 'all'],
  '2025-11-25': [NEXT, '--requirements', '2025-11-25'],
  '2026-07-28': [NEXT, '--requirements', '2026-07-28'],
}

const proxy = createServer((from, answer) => {
  const headers = [...from.rawHeaders, 'Authorization', `Bearer ${token}`]
  const passed = request({ hostname, port, path: pathname, method: from.method, headers, setHost: false }, (reply) => {
    answer.writeHead(reply.statusCode, reply.rawHeaders)
    reply.pipe(answer)
  })
  from.pipe(passed)
}).listen(0, '127.0.0.1')
await new Promise((resolve) => proxy.once('listening', resolve))
const url = `http://127.0.0.1:${proxy.address().port}/mcp`

const run = ([suite, ...options]) => new Promise((resolve) => {
  const output = mkdtempSync(join(tmpdir(), 'conformance-'))
  const program = join(import.meta.dirname, '../node_modules', suite, 'dist/index.js')
  const hook = join(import.meta.dirname, 'fs_with_glob.mjs')
  // The suite fails if a scenario fails that does not apply to this server.
  execFile('node', ['--import', hook, program, 'server', '--url', url, ...options, '-o', output], () => {
    const found = readdirSync(output).map((directory) => {
      const checks = JSON.parse(readFileSync(join(output, directory, 'checks.json'), 'utf8'))
      // server-tools-list-2026-11-23T23-00-54-489Z
      const scenario = directory.replace(/^server-(.*)-\d{4}-\d\d-\d\dT.*$/, '$1')
      return [scenario, checks.map(({ name, status, errorMessage }) => ({ name, status, message: errorMessage ?? '' }))]
    })
    rmSync(output, { recursive: true })
    resolve(Object.fromEntries(found))
  })
})

const found = {}
for (const [name, options] of Object.entries(RUNS)) found[name] = await run(options)
console.log(JSON.stringify(found))
proxy.closeAllConnections()
proxy.close()
