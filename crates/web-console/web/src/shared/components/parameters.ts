// The parameters of a component as fields that ask for them.

import type { Field, Fields, Json, Validator } from '../../api/shapes.ts'

const isObject = (value: Json | undefined): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The front end defines the options: here a text, a number, or either with a text beside it. */
function optionOf(option: Json): { value: string | number; text: string }[] {
  const { value = null, text = null } = isObject(option) ? option : { value: option }
  if (typeof value !== 'string' && typeof value !== 'number') return []
  return [{ value, text: typeof text === 'string' && text ? text : `${value}` }]
}

function limitOf(type: string, limit: Json | undefined): Validator[] {
  if (typeof limit !== 'number') return []
  if (type === 'integer') return [{ name: 'max_value', value: limit }]
  return type === 'string' ? [{ name: 'max_length', value: limit }] : []
}

export function parameterFields(parameters: Json | undefined): Field[] {
  const all = Array.isArray(parameters) ? parameters.filter(isObject) : []
  return all.flatMap((parameter): Field[] => {
    const { parameter_name: name, parameter_type: withoutEmpty, parameter_description: description } = parameter
    if (typeof name !== 'string' || name === '') return []
    const values = (Array.isArray(parameter.parameter_options) ? parameter.parameter_options : []).flatMap(optionOf)
    const type =
      withoutEmpty === 'enum' || withoutEmpty === 'integer' || withoutEmpty === 'boolean' ? withoutEmpty : 'string'
    const limits = limitOf(type, parameter.parameter_limit)
    return [
      {
        alias: name,
        type,
        required: false,
        label: name,
        ...(typeof description === 'string' && description && { description }),
        ...(limits.length > 0 && { validators: limits }),
        ...(type === 'enum' && { values }),
      },
    ]
  })
}

/** The stored parameters, without empty ones. */
export const withoutEmpty = (parameters: Json | undefined): Fields =>
  Object.fromEntries(
    Object.entries(isObject(parameters) ? parameters : {}).filter(([, value]) => value !== null && value !== ''),
  )

/** The parameters with a value of another type or beyond their limit. */
export const invalidParameters = (fields: Field[], values: Fields): string[] =>
  fields
    .filter(({ alias, type, validators }) => {
      const value = values[alias] ?? null
      if (value === null || value === '') return false
      const most = Number(validators?.[0]?.value ?? Number.POSITIVE_INFINITY)
      if (type === 'integer') return typeof value !== 'number' || value > most
      return typeof value === 'string' && value.length > most
    })
    .map(({ alias }) => alias)
