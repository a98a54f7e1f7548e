// The check of the two documents that lead agents to the sign-in (RFC 9728, RFC 8414).

import type { Fields, Json } from '../../api/shapes.ts'

export interface Finding {
  id: 'resource' | 'server' | 'issuer' | 'endpoints' | 'pkce' | 'grants' | 'https' | 'origin'
  isRight: boolean
  /** The value in the document, if it helps. */
  found?: string
}

const plain = (address: Json | undefined) => `${address ?? ''}`.replace(/\/+$/, '')
const has = (list: Json | undefined, ...wanted: string[]) =>
  Array.isArray(list) && wanted.every((one) => list.some((item) => plain(item) === plain(one)))
const isLoopback = (host: string) =>
  host === 'localhost' || host.endsWith('.localhost') || /^(127\.|\[::1\])/.test(host)

/** The addresses of the documents, on the host of the console. */
export const documentsOf = (serverUrl: string): { resource: string; server: string } | undefined => {
  const uuid = /\/mcp\/([0-9a-f-]{36})\/?$/.exec(serverUrl)?.[1]
  return uuid === undefined
    ? undefined
    : {
        resource: `/.well-known/oauth-protected-resource/mcp/${uuid}`,
        server: '/.well-known/oauth-authorization-server',
      }
}

export function findings(serverUrl: string, here: string, resource: Fields, server: Fields): Finding[] {
  const address = serverUrl.replace(/\/mcp\/[^/]+\/?$/, '')
  const { protocol, hostname, origin } = new URL(serverUrl)
  const endpoints = ['authorization_endpoint', 'token_endpoint', 'revocation_endpoint'].map((name) =>
    plain(server[name]),
  )
  return [
    { id: 'resource', isRight: plain(resource.resource) === plain(serverUrl), found: plain(resource.resource) },
    {
      id: 'server',
      isRight: has(resource.authorization_servers, address),
      found: Array.isArray(resource.authorization_servers) ? resource.authorization_servers.join(', ') : '',
    },
    { id: 'issuer', isRight: plain(server.issuer) === plain(address), found: plain(server.issuer) },
    {
      id: 'endpoints',
      isRight: endpoints.every((one) => one.startsWith(`${plain(address)}/`)),
      found: endpoints.join(', '),
    },
    { id: 'pkce', isRight: has(server.code_challenge_methods_supported, 'S256') },
    { id: 'grants', isRight: has(server.grant_types_supported, 'authorization_code', 'refresh_token') },
    { id: 'https', isRight: protocol === 'https:' || isLoopback(hostname), found: origin },
    { id: 'origin', isRight: origin === here, found: here },
  ]
}
