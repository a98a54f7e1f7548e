// The only place that calls the API.

import { renew, sessionIsOver, signedIn, token } from './session.ts'
import type { Json } from './shapes.ts'

export type Method = 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE' | 'OPTIONS'

export interface Answer<T> {
  status: number
  data: T
  etag: string | null
}

/** What the API refused: a status, and its body as it came. Status 0: the server was not reached. */
export class Refusal extends Error {
  status: number
  body: { [field: string]: Json }
  requestId: string | null
  retryAfter: number | null

  constructor(status: number, body: { [field: string]: Json }, requestId: string | null, retryAfter: number | null) {
    super(typeof body.detail === 'string' ? body.detail : `${status}`)
    Object.assign(this, { status, body, requestId, retryAfter })
    this.status = status
    this.body = body
    this.requestId = requestId
    this.retryAfter = retryAfter
  }

  get detail(): string | undefined {
    const detail = this.body.detail
    return Array.isArray(detail) ? detail.join(' ') : typeof detail === 'string' ? detail : undefined
  }
}

export interface Settings {
  body?: unknown
  ifMatch?: string | null
  signal?: AbortSignal
}

async function send(method: Method, path: string, { body, ifMatch, signal }: Settings): Promise<Response> {
  const headers = new Headers({ Authorization: `Bearer ${token() ?? ''}` })
  if (body !== undefined && !(body instanceof Blob)) headers.set('Content-Type', 'application/json')
  if (ifMatch) headers.set('If-Match', ifMatch)
  const payload = body === undefined || body instanceof Blob ? (body as Blob | undefined) : JSON.stringify(body)
  const init: RequestInit = {
    method,
    headers,
    ...(payload !== undefined && { body: payload }),
    ...(signal && { signal }),
  }
  return fetch(path, init).catch((error: unknown) => {
    if (signal?.aborted) throw error
    throw new Refusal(0, {}, null, null)
  })
}

/** Sends a request as whoever is signed in; one whose session is over waits until somebody has signed in again. */
export async function call<T = Json>(method: Method, path: string, settings: Settings = {}): Promise<Answer<T>> {
  for (;;) {
    await signedIn()
    const sent = token()
    const answer = await send(method, path, settings)
    if (answer.status === 401) {
      const isBack = sent !== token() || (await renew())
      if (!isBack && !sessionIsOver()) throw new Refusal(0, {}, null, null)
      continue
    }
    const text = await answer.text()
    const isJson = answer.headers.get('Content-Type')?.startsWith('application/json')
    const data = (isJson && text ? JSON.parse(text) : text) as T
    if (answer.ok) return { status: answer.status, data, etag: answer.headers.get('ETag') }
    const body = isJson ? (data as { [field: string]: Json }) : {}
    throw new Refusal(
      answer.status,
      Array.isArray(body) ? { detail: body } : body,
      answer.headers.get('X-Request-Id'),
      Number(answer.headers.get('Retry-After')) || null,
    )
  }
}

export const get = async <T>(path: string, signal?: AbortSignal): Promise<T> =>
  (await call<T>('GET', path, signal ? { signal } : {})).data
