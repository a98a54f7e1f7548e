import type { Json } from './shapes.ts'

/** The method and the path of a request. */
export interface Asked {
  method: string
  path: string
}

/** A refusal of the API: its status and its body. Status 0: the server was not reached. */
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
    request?: Asked,
  ) {
    super(typeof body.detail === 'string' ? body.detail : `${status}`)
    this.status = status
    this.body = body
    this.requestId = requestId
    this.retryAfter = retryAfter
    this.asked = request
  }

  get detail(): string | undefined {
    const detail = this.body.detail
    return Array.isArray(detail) ? detail.join(' ') : typeof detail === 'string' ? detail : undefined
  }

  /** Returns the refusal with other names. */
  saying(body: { [field: string]: Json }): Refusal {
    return new Refusal(this.status, body, this.requestId, this.retryAfter, this.asked)
  }

  /** True if the same request may succeed a little later. */
  get isPassing(): boolean {
    return [0, 429, 502, 503, 504].includes(this.status)
  }
}
