// The configuration of a form: sections with fields of the class, texts and components, in their order.

import type { Field, Fields, Json, Placed, Use } from '../../api/shapes.ts'

export interface Section {
  title: string
  text: string
  /** The section is shown only if a field has one of these values. */
  when: { field: string; in: Json[] } | undefined
  items: Fields[]
}

export const VERSION = 1
/** The default place of the components in a form. */
export const STANDALONE: Use = 'object_class_standalone_form'

const isObject = (value: Json | undefined): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const textOf = (value: Json | undefined) => (typeof value === 'string' ? value : '')

export type Kind = 'field' | 'text' | 'component'

/** A component may also be the input of a field. */
export const kindOf = (item: Fields): Kind | undefined =>
  (['component', 'field', 'text'] as const).find((kind) => (item[kind] ?? null) !== null)

/** The component of an item, as it is shown in a standalone form, or in one that makes a record beside the list of its class. */
export function placedIn(item: Fields, use: Use): Placed | undefined {
  const { component, parameters } = item
  if (typeof component !== 'number') return undefined
  return { component, use, parameters: isObject(parameters) ? parameters : {} }
}

function whenOf(value: Json | undefined): Section['when'] {
  if (!isObject(value) || typeof value.field !== 'string') return undefined
  return {
    field: value.field,
    in: Array.isArray(value.in) ? value.in : 'equals' in value ? [value.equals ?? null] : [],
  }
}

/** The sections of a configuration; undefined for a configuration of another kind. */
export function sectionsOf(configuration: Json | undefined): Section[] | undefined {
  if (!isObject(configuration) || !Array.isArray(configuration.sections)) return undefined
  if ((configuration.version ?? VERSION) !== VERSION) return undefined
  return configuration.sections.filter(isObject).map((section) => ({
    title: textOf(section.title),
    text: textOf(section.text),
    when: whenOf(section.when),
    items: (Array.isArray(section.items) ? section.items : []).filter(isObject).filter(kindOf),
  }))
}

/** The stored form, without empty members. */
export const configurationOf = (sections: Section[]): Fields => ({
  version: VERSION,
  sections: sections.map(({ title, text, when, items }) => ({
    ...(title && { title }),
    ...(text && { text }),
    ...(when && { when: { ...when } }),
    items,
  })),
})

const isChosen = (value: Json | undefined, wanted: Json[]) =>
  Array.isArray(value)
    ? value.some((one) => wanted.includes(one))
    : // An untouched box counts as not ticked.
      wanted.includes(value ?? null) || ((value ?? null) === null && wanted.includes(false))

/** The sections that are shown with these values. A condition on a hidden field is not met. */
export function visibleSections(sections: Section[], values: Fields): Section[] {
  const asked = new Set<string>()
  return sections.filter(({ when, items }) => {
    const isShown = !when || (asked.has(when.field) && isChosen(values[when.field], when.in))
    if (isShown) for (const { field } of items) if (typeof field === 'string') asked.add(field)
    return isShown
  })
}

export const aliasesIn = (sections: Section[]): string[] =>
  sections.flatMap(({ items }) => items.flatMap(({ field }) => (typeof field === 'string' ? field : [])))

/** The fields of the class in a form, with the form's labels and requirements. The first place of each counts. */
export function fieldsIn(sections: Section[], fields: Field[], use: Use = STANDALONE): Field[] {
  const byAlias = new Map<string, Field>()
  for (const item of sections.flatMap(({ items }) => items)) {
    const field = fields.find(({ alias }) => alias === item.field)
    if (!field || byAlias.has(field.alias)) continue
    const custom = placedIn(item, use)
    byAlias.set(field.alias, {
      ...field,
      ...(custom && { custom }),
      required: field.required || item.required === true,
      ...(textOf(item.label) && { label: textOf(item.label) }),
      ...(textOf(item.help) && { description: textOf(item.help) }),
    })
  }
  return [...byAlias.values()]
}

/** The flaws of a form that the API would refuse or the page would omit: deleted fields, and missing required ones. */
export function flaws(sections: Section[], fields: Field[]): { gone: string[]; missing: Field[] } {
  const asked = aliasesIn(sections)
  const aliases = new Set(fields.map(({ alias }) => alias))
  return {
    gone: asked.filter((alias) => !aliases.has(alias)),
    missing: fields.filter(
      ({ alias, required, default: standard }) => required && (standard ?? null) === null && !asked.includes(alias),
    ),
  }
}
