import type { Field } from '../api/shapes.ts'

/** A bound of a field, by the name of what checks it. */
export const limit = (field: Field, name: string): number | undefined => {
  const value = field.validators?.find((validator) => validator.name === name)?.value
  return typeof value === 'number' ? value : undefined
}
