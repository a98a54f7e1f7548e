// What a component is told of the record beside which it stands.

import type { Fields } from '../api/shapes.ts'

/** What a record has beside the values of its fields. */
const NO_FIELDS = new Set([
  'id',
  'object_class',
  'owner',
  'permission_sets',
  'created_at',
  'created_by',
  'modified_at',
  'modified_by',
  '_meta',
])

/** The values of these fields of a record that was made flat. What is no field of it, or hidden, is missing. */
export const valuesOf = (record: Fields, aliases: string[]): Fields =>
  Object.fromEntries(
    aliases.flatMap((alias) =>
      NO_FIELDS.has(alias) || !Object.hasOwn(record, alias) ? [] : [[alias, record[alias] ?? null]],
    ),
  )
