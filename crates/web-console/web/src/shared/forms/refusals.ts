// The refusal of one member of the body, as if the member were the body.

import { Refusal } from '../../api/request.ts'
import type { Fields, Json } from '../../api/shapes.ts'

const isObject = (value: Json | undefined): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The messages of nested members join the others. */
export function within(error: unknown, ...names: string[]): unknown {
  if (!(error instanceof Refusal) || error.status !== 400) return error
  let body: Fields = error.body
  for (const name of names) {
    const { [name]: inner, ...rest } = body
    if (isObject(inner)) body = { ...rest, ...inner }
  }
  return error.saying(body)
}

/** A refusal for fields that the console finds missing, in the form of the API's. */
export const refusal = (names: string[], text: string) =>
  new Refusal(400, Object.fromEntries(names.map((name) => [name, [text]])), null, null)
