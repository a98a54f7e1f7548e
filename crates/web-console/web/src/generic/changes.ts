// The body that a form sends, and the merge of changes after another user changed the same object.

import type { Field, Fields, Json } from '../api/shapes.ts'

export function isEqual(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || !a || !b) return false
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const names = new Set([...Object.keys(a), ...Object.keys(b)])
  return [...names].every((name) => isEqual((a as Fields)[name], (b as Fields)[name]))
}

/** The fields of `now` that are not as they were. Of groups only the members that changed are sent. */
export function changed(before: Fields, now: Fields, groups: string[] = []): Fields {
  const result: Fields = {}
  for (const [alias, value] of Object.entries(now)) {
    if (isEqual(before[alias], value)) continue
    const isGroup = groups.includes(alias) && isGroupValue(before[alias]) && isGroupValue(value)
    result[alias] = isGroup ? changed(before[alias] as Fields, value as Fields) : value
  }
  return result
}

export const isEmpty = (value: Json | undefined): value is null | undefined | '' =>
  value === null || value === undefined || value === '' || (Array.isArray(value) && value.length === 0)

const isGroupValue = (value: Json | undefined): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export interface Clash {
  /** The dotted name: of a group only the members clash that both changed. */
  alias: string
  theirs: Json | undefined
  ours: Json | undefined
}

export interface Merge {
  /** Ours if only we changed a field, theirs if only they did. If both did, theirs until the user chooses. */
  merged: Fields
  clashes: Clash[]
}

/** `fields` say which values are groups. Other objects are one value. */
export function merge(base: Fields, theirs: Fields, ours: Fields, fields: Field[] = []): Merge {
  const merged: Fields = { ...ours }
  const clashes: Clash[] = []
  for (const alias of new Set([...Object.keys(ours), ...Object.keys(theirs)])) {
    const [before, their, our] = [base[alias], theirs[alias], ours[alias]]
    if (isEqual(before, their)) continue
    const members = fields.find((field) => field.alias === alias)?.schema
    if (members && isGroupValue(before) && isGroupValue(their) && isGroupValue(our)) {
      const inner = merge(before, their, our, members)
      merged[alias] = inner.merged
      clashes.push(...inner.clashes.map((clash) => ({ ...clash, alias: `${alias}.${clash.alias}` })))
      continue
    }
    if (their === undefined) delete merged[alias]
    else merged[alias] = their
    if (!isEqual(before, our) && !isEqual(our, their)) clashes.push({ alias, theirs: their, ours: our })
  }
  return { merged, clashes }
}

/** The values with another one, or none, at a dotted name. */
export function put(values: Fields, name: string, value: Json | undefined): Fields {
  const [alias = '', ...inner] = name.split('.')
  const { [alias]: before, ...others } = values
  if (inner.length > 0) return { ...values, [alias]: put((before ?? {}) as Fields, inner.join('.'), value) }
  return value === undefined ? others : { ...values, [alias]: value }
}

/** The API's messages by the dotted name of their field. A message without a field has an empty name. */
export function messages(body: { [field: string]: Json }, prefix = ''): { [name: string]: string } {
  const texts: { [name: string]: string } = {}
  const add = (name: string, text: string) => {
    texts[name] = texts[name] ? `${texts[name]} ${text}` : text
  }
  for (const [field, value] of Object.entries(body)) {
    if (field === 'error_code') continue
    const isOfNone = field === 'detail' || field === 'non_field_errors'
    const name = isOfNone ? prefix.replace(/\.$/, '') : `${prefix}${field}`
    if (typeof value === 'string') add(name, value)
    else if (Array.isArray(value)) {
      for (const item of value) {
        if (typeof item === 'string') add(name, item)
        else if (item && typeof item === 'object')
          for (const [inner, text] of Object.entries(messages(item as Fields)))
            add(inner ? `${name}: ${inner}` : name, text)
      }
    } else if (value && typeof value === 'object') Object.assign(texts, messages(value as Fields, `${name}.`))
  }
  return texts
}
