// Errors of a value that the schema reveals, in the API's own words. The API decides whether a value is valid.

import type { Field, Fields, Json } from '../api/shapes.ts'
import { limit } from './limit.ts'

export type Flaw =
  | { key: 'required' | 'check.integer' | 'check.number' | 'check.email' | 'check.url' }
  | { key: 'check.long' | 'check.short' | 'check.small' | 'check.big'; limit: number }

const TYPED = ['string', 'text', 'longtext', 'email', 'url', 'integer', 'decimal', 'date', 'datetime']
const isEmail = (text: string) => /^[^\s@]+@[^\s@]*[^\s@.\d][^\s@.]*$/.test(text)
const isUrl = (text: string) => /^https?:\/\/[^\s/?#:]\S*$/i.test(text)

/** Checks a typed value. `isKept`: an empty text leaves the stored value. */
export function flawOf(field: Field, value: Json | undefined, isKept = false): Flaw | undefined {
  if (!TYPED.includes(field.type) || field.autocomplete) return undefined
  if (value !== null && value !== undefined && !['string', 'number', 'bigint'].includes(typeof value)) return undefined
  const text = `${value ?? ''}`.trim()
  if (text === '') return field.required && !isKept ? { key: 'required' } : undefined
  if (field.type === 'integer' && !/^[-+]?\d+$/.test(text)) return { key: 'check.integer' }
  if (field.type === 'decimal' && !/^[-+]?(\d+\.?\d*|\.\d+)$/.test(text)) return { key: 'check.number' }
  if (field.type === 'email' && !isEmail(text)) return { key: 'check.email' }
  if (field.type === 'url' && !isUrl(text)) return { key: 'check.url' }
  const bound = (name: string, isBeyond: (most: number) => boolean) => {
    const most = limit(field, name)
    return most !== undefined && isBeyond(most) ? most : undefined
  }
  if (field.type === 'integer' || field.type === 'decimal') {
    const small = bound('min_value', (least) => Number(text) < least)
    if (small !== undefined) return { key: 'check.small', limit: small }
    const big = bound('max_value', (most) => Number(text) > most)
    return big === undefined ? undefined : { key: 'check.big', limit: big }
  }
  // Characters, not halves of them.
  const { length } = [...text]
  const long = bound('max_length', (most) => length > most)
  if (long !== undefined) return { key: 'check.long', limit: long }
  const short = bound('min_length', (least) => length < least)
  return short === undefined ? undefined : { key: 'check.short', limit: short }
}

/** The field and the value at a dotted name; undefined for a name outside of groups and rows. */
export function fieldAt(
  fields: Field[],
  values: Json | undefined,
  name: string,
): { field: Field; value: Json | undefined } | undefined {
  const [alias = '', ...inner] = name.split('.')
  const field = fields.find((one) => one.alias === alias)
  const value = (values as Fields | null | undefined)?.[alias]
  if (!field || inner.length === 0) return field && { field, value }
  const [row = '', ...rest] = inner
  if (!field.schema) return undefined
  return field.type === 'list'
    ? fieldAt(field.schema, (value as Json[] | null | undefined)?.[Number(row)], rest.join('.'))
    : fieldAt(field.schema, value, inner.join('.'))
}
