// The input of a component about the record beside it.

import type { Fields } from '../api/shapes.ts'

/** The values of a record beside its fields. */
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

/** The values of these fields of a flat record. Unknown and hidden fields are missing. */
export const valuesOf = (record: Fields, aliases: string[]): Fields =>
  Object.fromEntries(
    aliases.flatMap((alias) =>
      NO_FIELDS.has(alias) || !Object.hasOwn(record, alias) ? [] : [[alias, record[alias] ?? null]],
    ),
  )
