// The only place that calls the API.

import { parseJson, writeJson } from './json.ts'
import { type Asked, Refusal } from './refusal.ts'
import { renew, session, sessionIsOver, signedIn, token } from './session.ts'
import type { Json } from './shapes.ts'

export { Refusal }

export type Method = 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE' | 'OPTIONS'

export interface Answer<T> {
  status: number
  data: T
  etag: string | null
}

export interface Settings {
  body?: unknown
  ifMatch?: string | null
  signal?: AbortSignal
  /** Sent without a token, for answers that differ for anonymous callers. */
  isPublic?: boolean
}

async function send(method: Method, path: string, { body, ifMatch, signal, isPublic }: Settings): Promise<Response> {
  const headers = new Headers(isPublic ? {} : { Authorization: `Bearer ${token() ?? ''}` })
  if (body !== undefined && !(body instanceof Blob)) headers.set('Content-Type', 'application/json')
  if (ifMatch) headers.set('If-Match', ifMatch)
  const payload = body === undefined || body instanceof Blob ? (body as Blob | undefined) : writeJson(body)
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

/** Sends a request with the session, again after a renewal if the answer is 401. A 401 with a new token is returned. */
async function asSignedIn<T extends { status: number }>(once: () => Promise<T>): Promise<T> {
  for (let isRenewed = false; ; ) {
    await signedIn()
    const accessToken = token()
    const answer = await once()
    if (answer.status !== 401 || isRenewed) return answer
    if (accessToken !== token()) continue
    isRenewed = await renew()
    if (!isRenewed && !sessionIsOver()) throw new Refusal(0, {}, null, null)
  }
}

interface Received {
  status: number
  headers: { get(name: string): string | null }
}

/** The refusal of a session whose user must add a second factor. */
const FACTOR_REQUIRED = 'Second factor required.'

/** Returns the body of an answer, or throws its refusal. */
function received<T>(answer: Received, text: string, request: Asked): Answer<T> {
  const isJson = answer.headers.get('Content-Type')?.startsWith('application/json')
  const data = (isJson && text ? parseJson(text) : text) as T
  if (answer.status >= 200 && answer.status < 300)
    return { status: answer.status, data, etag: answer.headers.get('ETag') }
  const body = isJson ? (data as { [field: string]: Json }) : {}
  // The rule is newer than the start of the session. The next start says so, and the frame shows what to do.
  if (answer.status === 403 && body.detail === FACTOR_REQUIRED && !session()?.second_factor_required) void renew()
  throw new Refusal(
    answer.status,
    Array.isArray(body) ? { detail: body } : body,
    answer.headers.get('X-Request-Id'),
    Number(answer.headers.get('Retry-After')) || null,
    request,
  )
}

/** Sends a request with the session. If the session is over, the request waits for the next sign-in. */
export async function call<T = Json>(method: Method, path: string, settings: Settings = {}): Promise<Answer<T>> {
  const answer = await asSignedIn(() => send(method, path, settings))
  return received<T>(answer, await answer.text(), { method, path })
}

/** A file of the API, with the name that the answer gives to it. */
export async function download(
  url: string,
  signal?: AbortSignal,
): Promise<{ content: Blob; name: string | undefined }> {
  const { pathname, search } = new URL(url, location.origin)
  const answer = await asSignedIn(() => send('GET', pathname + search, signal ? { signal } : {}))
  if (!answer.ok) received(answer, await answer.text(), { method: 'GET', path: pathname })
  const [, name] = /filename\*=UTF-8''([^;]+)/i.exec(answer.headers.get('Content-Disposition') ?? '') ?? []
  return { content: await answer.blob(), name: name === undefined ? undefined : decodeURIComponent(name) }
}

const UPLOAD = '/api/files/upload/'

/** Sends a file and returns its token. `told` gets the number of sent bytes; only this kind of request reports it. */
export async function upload(file: File, onProgress: (sent: number) => void, signal: AbortSignal): Promise<string> {
  const once = () =>
    new Promise<XMLHttpRequest>((resolve, reject) => {
      const request = new XMLHttpRequest()
      request.open('POST', UPLOAD)
      request.setRequestHeader('Authorization', `Bearer ${token() ?? ''}`)
      request.setRequestHeader(
        'Content-Disposition',
        `attachment; filename*=UTF-8''${encodeURIComponent(file.name).replace(/['()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`)}`,
      )
      request.upload.onprogress = ({ loaded }) => onProgress(loaded)
      request.onload = () => resolve(request)
      request.onerror = () => reject(new Refusal(0, {}, null, null))
      request.onabort = () => reject(signal.reason)
      signal.addEventListener('abort', () => request.abort(), { once: true })
      request.send(file)
    })
  const { status, responseText, ...answer } = await asSignedIn(once).then((request) => ({
    status: request.status,
    responseText: request.responseText,
    headers: { get: (name: string) => request.getResponseHeader(name) },
  }))
  return received<{ token: string }>({ status, ...answer }, responseText, { method: 'POST', path: UPLOAD }).data.token
}

export const get = async <T>(path: string, signal?: AbortSignal): Promise<T> =>
  (await call<T>('GET', path, signal ? { signal } : {})).data
