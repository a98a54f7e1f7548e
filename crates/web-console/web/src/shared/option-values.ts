// The options of an enumeration as the API stores them.

import type { Fields, Json } from '../api/shapes.ts'

export interface Option {
  value: string
  text: string
}

export const optionsOf = (value: Json | undefined): Option[] =>
  (Array.isArray(value) ? value : []).map((item) => {
    const { value: name, text } = (item ?? {}) as Fields
    return { value: `${name ?? ''}`, text: `${text ?? ''}` }
  })

/** Derives the stored value of an option, or the name of a question, from its text. */
export const valueFrom = (text: string) =>
  text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replaceAll(/^_|_$/g, '')
    .slice(0, 50)
