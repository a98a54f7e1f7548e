import assert from 'node:assert/strict'
import test from 'node:test'
import { documentsOf, findings } from '../src/screens/connected/metadata.ts'

const UUID = '019c1371-2a40-7a5e-9a4b-3f0f8d2f5d11'
const URL = `https://a.example/mcp/${UUID}/`
const RESOURCE = { resource: URL, authorization_servers: ['https://a.example'] }
const SERVER = {
  issuer: 'https://a.example',
  authorization_endpoint: 'https://a.example/oauth/authorize',
  token_endpoint: 'https://a.example/oauth/token',
  revocation_endpoint: 'https://a.example/oauth/revoke',
  grant_types_supported: ['authorization_code', 'refresh_token'],
  code_challenge_methods_supported: ['S256'],
}
const wrong = (url: string, here: string, resource: object, server: object) =>
  findings(url, here, resource as never, server as never).flatMap(({ id, isRight }) => (isRight ? [] : [id]))

test('the documents of a connector are those of its uuid', () => {
  assert.equal(documentsOf(URL)?.resource, `/.well-known/oauth-protected-resource/mcp/${UUID}`)
  assert.equal(documentsOf('https://a.example/'), undefined)
})

test('complete documents pass the check', () => {
  assert.deepEqual(wrong(URL, 'https://a.example', RESOURCE, SERVER), [])
})

test('each thing that is wrong is found', () => {
  assert.deepEqual(wrong(URL, 'https://a.example', { resource: 'https://b.example/mcp/x' }, SERVER), [
    'resource',
    'server',
  ])
  const other = { ...SERVER, issuer: 'http://a.example', token_endpoint: 'http://a.example/oauth/token' }
  assert.deepEqual(wrong(URL, 'https://b.example', RESOURCE, other), ['issuer', 'endpoints', 'origin'])
  assert.deepEqual(wrong(URL, 'https://a.example', RESOURCE, {}), ['issuer', 'endpoints', 'pkce', 'grants'])
})

test('http does for an address on this computer alone', () => {
  const at = (host: string) => {
    const url = `http://${host}/mcp/${UUID}/`
    return findings(url, `http://${host}`, {}, {}).find(({ id }) => id === 'https')?.isRight
  }
  assert.equal(at('demo.localhost:8000'), true)
  assert.equal(at('127.0.0.1:8000'), true)
  assert.equal(at('a.example'), false)
})
