import type { Field, Options } from '../../api/shapes.ts'

/** The fields of a class that a form for its records asks for, from the schema document of the records. */
export const recordFields = (described: Options | undefined): Field[] =>
  described?.details.schema.find(({ alias }) => alias === 'fields')?.schema ?? []
