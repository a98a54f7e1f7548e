// The questions of a task: as its template stores them, as fields, and their answers.

import { writeJson } from '../../api/json.ts'
import type { Field, Fields, Json, Placed, Value } from '../../api/shapes.ts'

export const QUESTION_TYPES = [
  'text',
  'longtext',
  'integer',
  'decimal',
  'boolean',
  'date',
  'datetime',
  'choice',
  'choices',
  'file',
] as const

export type QuestionType = (typeof QUESTION_TYPES)[number]

export interface QuestionOption {
  value: Json
  text: string
}

export interface Question {
  name: string
  label: string
  type: QuestionType
  options: QuestionOption[]
  required: boolean
  help: string
  /** The component of the question, if the console can show it. */
  custom?: Placed
}

const MOST = 500
const FIELD_TYPES: { [type in QuestionType]: string } = {
  text: 'string',
  longtext: 'text',
  integer: 'integer',
  decimal: 'decimal',
  boolean: 'boolean',
  date: 'date',
  datetime: 'datetime',
  choice: 'enum',
  choices: 'set',
  file: 'file',
}

const isObject = (value: Json | undefined): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isType = (value: Json | undefined): value is QuestionType => QUESTION_TYPES.includes(value as QuestionType)
const textOf = (value: Json | undefined) => (typeof value === 'string' ? value : '')

function optionOf(item: Json): QuestionOption[] {
  const { value = null, text = null } = isObject(item) ? item : { value: item }
  return value === null ? [] : [{ value, text: textOf(text) || (typeof value === 'string' ? value : writeJson(value)) }]
}

export const aliasesOf = (value: Json | undefined): string[] =>
  Array.isArray(value) ? [...new Set(value.filter((alias) => typeof alias === 'string'))] : []

function customOf({ component, parameters, fields }: Fields): { custom?: Placed } {
  if (typeof component !== 'number') return {}
  const aliases = aliasesOf(fields)
  return {
    custom: {
      component,
      use: 'task_template_form',
      parameters: isObject(parameters) ? parameters : {},
      ...(aliases.length > 0 && { fields: aliases }),
    },
  }
}

/** The questions of a configuration; undefined without questions, when one text is asked for. */
export function questionsOf(configuration: Json | undefined): Question[] | undefined {
  const list = isObject(configuration) ? configuration.questions : undefined
  if (!Array.isArray(list)) return undefined
  const names = new Set<string>()
  const all = list.flatMap((item): Question[] => {
    const name = isObject(item) ? textOf(item.name) : ''
    if (!isObject(item) || !name || names.has(name)) return []
    names.add(name)
    return [
      {
        name,
        label: textOf(item.label) || name,
        type: isType(item.type) ? item.type : 'text',
        options: (Array.isArray(item.options) ? item.options : []).flatMap(optionOf),
        required: item.required === true,
        help: textOf(item.help),
        ...customOf(item),
      },
    ]
  })
  return all.slice(0, MOST)
}

/** The value of an option in a control: a text or a number itself, any other value as JSON. */
const keyOf = (value: Json): string | number =>
  typeof value === 'string' || typeof value === 'number' ? value : writeJson(value)

export function fieldOf({ name, label, type, options, required, help, custom }: Question): Field {
  const values: Value[] = options.map(({ value, text }) => ({ value: keyOf(value), text }))
  return {
    alias: name,
    type: FIELD_TYPES[type],
    required,
    label,
    ...(help && { description: help }),
    ...((type === 'choice' || type === 'choices') && { values }),
    ...(type === 'file' && { max_num_of_files: 1 }),
    ...(custom && { custom }),
  }
}

const original = (question: Question, key: Json): Json =>
  question.options.find(({ value }) => keyOf(value) === key)?.value ?? key

/** An answer as the API stores it; null without one. */
export function answerOf(question: Question, value: Json | undefined): Json {
  if (question.type === 'boolean') return value === true
  if (value === undefined || value === null || value === '') return null
  if (question.type === 'choice') return original(question, value)
  if (question.type === 'choices' && Array.isArray(value))
    return value.length > 0 ? value.map((key) => original(question, key)) : null
  if (question.type === 'file') return (Array.isArray(value) ? value[0] : value) ?? null
  return value
}

/** The value of a stored answer in a control. */
export function shownOf(question: Question, answer: Json | undefined): Json {
  if (answer === undefined || answer === null) return null
  if (question.type === 'choice') return keyOf(answer)
  if (question.type === 'choices') return Array.isArray(answer) ? answer.map(keyOf) : null
  if (question.type === 'file') return [answer]
  return answer
}

/** The required questions that have no answer. */
export const missing = (questions: Question[], answers: Fields): string[] =>
  questions
    .filter(({ name, required, type }) => required && type !== 'boolean' && (answers[name] ?? null) === null)
    .map(({ name }) => name)
