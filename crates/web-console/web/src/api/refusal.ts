import type { Json } from './shapes.ts'

/** What was asked of the API. */
export interface Asked {
  method: string
  path: string
}

/** What the API refused: a status, and its body as it came. Status 0: the server was not reached. */
export class Refusal extends Error {
  status: number
  body: { [field: string]: Json }
  requestId: string | null
  retryAfter: number | null
  asked: Asked | undefined

  constructor(
    status: number,
    body: { [field: string]: Json },
    requestId: string | null,
    retryAfter: number | null,
    asked?: Asked,
  ) {
    super(typeof body.detail === 'string' ? body.detail : `${status}`)
    this.status = status
    this.body = body
    this.requestId = requestId
    this.retryAfter = retryAfter
    this.asked = asked
  }

  get detail(): string | undefined {
    const detail = this.body.detail
    return Array.isArray(detail) ? detail.join(' ') : typeof detail === 'string' ? detail : undefined
  }

  /** The same, told by other names. */
  saying(body: { [field: string]: Json }): Refusal {
    return new Refusal(this.status, body, this.requestId, this.retryAfter, this.asked)
  }

  /** Whether the same request may well succeed a little later. */
  get isPassing(): boolean {
    return [0, 429, 502, 503, 504].includes(this.status)
  }
}
