// The layout of a standalone form: which fields it asks for, in which order, with what said beside them. What the
// configuration holds that is not understood is passed over.

import type { Field, Fields, Json, Placed } from '../../api/shapes.ts'
import { same } from '../../generic/changes.ts'
import type { Section } from '../../generic/resource.ts'

export interface Layout {
  sections: Section[]
  /** Among them what stands between the fields, texts and components, under names with which no alias begins. */
  fields: Field[]
}

const isObject = (value: Json | undefined): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const objects = (value: Json | undefined): Fields[] => (Array.isArray(value) ? value.filter(isObject) : [])
const text = (value: Json | undefined) => (typeof value === 'string' && value !== '' ? value : undefined)

/** Whether a section is shown: `{field, equals}` or `{field, in}`; a field alone must have a value. */
export function holds(when: Json | undefined, values: Fields): boolean {
  if (!isObject(when)) return true
  const alias = text(when.field)
  if (alias === undefined) return true
  const value = values[alias] ?? null
  if ('equals' in when) return same(value, when.equals ?? null)
  if (Array.isArray(when.in)) return when.in.some((one) => same(value, one))
  return value !== null && value !== false && value !== ''
}

const customOf = ({ component, parameters }: Fields): { custom?: Placed } =>
  typeof component === 'number'
    ? { custom: { component, use: 'object_class_create_form', parameters: isObject(parameters) ? parameters : {} } }
    : {}

/** Undefined where the configuration is none that the console knows: then all fields are shown. */
export function layoutOf(configuration: Json, known: Field[], values: Fields): Layout | undefined {
  if (!isObject(configuration) || configuration.version !== 1 || !Array.isArray(configuration.sections))
    return undefined
  const layout: Layout = { sections: [], fields: [] }
  for (const [n, section] of objects(configuration.sections).entries()) {
    if (!holds(section.when, values)) continue
    const names: string[] = []
    for (const [m, item] of objects(section.items).entries()) {
      if (!holds(item.when, values)) continue
      const field = known.find(({ alias }) => alias === item.field)
      const custom = customOf(item)
      const said = custom.custom ? (text(item.label) ?? '') : text(item.text)
      if (field && !layout.fields.includes(field)) {
        names.push(field.alias)
        layout.fields.push({
          ...field,
          ...(text(item.label) !== undefined && { label: `${item.label}` }),
          ...(text(item.help) !== undefined && { description: `${item.help}` }),
          required: field.required || item.required === true,
          ...custom,
        })
      } else if (said !== undefined && typeof item.field !== 'string') {
        const name = `.${n}.${m}`
        names.push(name)
        layout.fields.push({ alias: name, type: 'text', required: false, label: said, ...custom })
      }
    }
    const heading = text(section.title)
    const below = text(section.text)
    layout.sections.push({
      title: 'records.fields',
      ...(heading !== undefined && { heading }),
      ...(below !== undefined && { text: below }),
      fields: names,
    })
  }
  return layout
}
