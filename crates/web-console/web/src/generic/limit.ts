import type { Field } from '../api/shapes.ts'

/** A bound of a field, by the name of what checks it. */
export const limit = (field: Field, name: string): number | undefined => {
  const value = field.validators?.find((validator) => validator.name === name)?.value
  // A bound beyond 2^53 is rounded: it refuses nothing that it allows.
  return typeof value === 'number' || typeof value === 'bigint' ? Number(value) : undefined
}
