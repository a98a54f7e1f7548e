import type { Json } from './shapes.ts'

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
