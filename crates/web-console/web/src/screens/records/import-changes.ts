// Reduces a change to the values that differ from the record, so that the import of an export changes nothing.

import type { Field, Fields, Instance, Json } from '../../api/shapes.ts'
import { isEqual } from '../../generic/changes.ts'

const isEmpty = (value: Json | undefined) =>
  value === null || value === undefined || value === '' || (Array.isArray(value) && value.length === 0)

/** The id of a reference, which is an object or the id. */
const idOf = (value: Json | undefined) =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value.id ?? null) : (value ?? null)

/** A decimal without leading and trailing zeros. */
function plainDecimal(value: Json): string {
  const [, minus = '', whole = '', places = ''] = `${value}`.match(/^(-?)\+?0*(\d*)(?:\.(\d*?)0*)?$/) ?? []
  if (whole === '' && places === '') return /[1-9]/.test(`${value}`) ? `${value}` : '0'
  return `${minus}${whole || '0'}${places && `.${places}`}`
}

/** A date and time as seconds and fraction, for comparing. */
function instant(value: Json): string {
  const [, before = '', fraction = '', offset = ''] =
    `${value}`.match(/^([^.]*)(?:\.(\d+))?(Z|[+-]\d{2}:?\d{2})$/i) ?? []
  return `${Date.parse(before + offset)}.${fraction.padEnd(6, '0').replace(/0+$/, '')}`
}

/** True if a value equals that of the record, even in another notation. */
export function isUnchanged({ type }: Field, stored: Json | undefined, value: Json): boolean {
  // CSV writes a set without members as it writes null.
  if (value === null) return isEmpty(stored)
  if (stored === null || stored === undefined) return false
  switch (type) {
    case 'user':
    case 'relation':
      return idOf(stored) === idOf(value)
    case 'decimal':
      return plainDecimal(stored) === plainDecimal(value)
    case 'datetime':
      return instant(stored) === instant(value)
    case 'set': {
      const [before, now] = [stored, value].map((all) => (Array.isArray(all) ? all.map(String).toSorted() : [`${all}`]))
      return isEqual(before, now)
    }
  }
  return typeof value === 'string' ? `${stored}` === value.trim() : isEqual(stored, value)
}

/** The item with the values that differ; undefined if none does. */
export function changesOf(item: Fields, stored: Instance, fields: Field[]): Fields | undefined {
  const now = stored.fields as Fields
  const values = Object.entries(item.fields as Fields).filter(([alias, value]) => {
    const field = fields.find((one) => one.alias === alias)
    return !field || !(alias in now) || !isUnchanged(field, now[alias], value)
  })
  const isOwner = item.owner === undefined || idOf(stored.owner) === item.owner
  if (values.length === 0 && isOwner) return undefined
  const { owner, ...rest } = item
  return { ...rest, ...(!isOwner && { owner: owner ?? null }), fields: Object.fromEntries(values) }
}
