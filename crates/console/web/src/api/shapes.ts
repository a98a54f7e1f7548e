// The shapes that return everywhere in the API. What a resource has beyond them, its OPTIONS document tells.

export interface Reference {
  id: number
  first_name: string
  last_name: string
  username: string
  company_name: string
  is_deleted: boolean
  account_type: string
}

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
export type Fields = { [alias: string]: Json }

/** The global permissions: an action of a resource is true or missing. */
export type Permissions = { [resource: string]: { [action: string]: boolean } }

export interface Meta {
  labels?: { [alias: string]: Json }
  permissions?: { [action: string]: boolean }
}

/** An instance of any resource. */
export type Instance = Fields & { _meta?: Meta & Json }

export interface User extends Reference {
  timezone: string
  _meta: Meta & Json
}

export interface Page {
  limit: number
  offset: number
  total_count: number | null
  filtered_count: number | null
  next: string | null
  previous: string | null
  results: Instance[]
}

export interface Choice {
  value: number | string
  text: string
}

export interface Validator {
  name: 'min_length' | 'max_length' | 'min_value' | 'max_value' | 'max_items' | 'reserved' | 'regex'
  value: number | string | string[]
}

/** A value of an enumeration; actions of permissions tell which others they bring along. */
export interface Value {
  value: string | number
  text: string
  requires?: string[]
  system?: boolean
}

export interface Column {
  alias: string
  type: string
  predicates: string[]
  sort_ok: boolean
  label?: string
  values?: Value[]
  autocomplete?: string
  /** What a list is asked by, without being a value of its lines. */
  is_parameter?: boolean
}

/** Where custom components are shown. */
export type Use =
  | 'landing_page'
  | 'object_class_create_form'
  | 'object_class_summary_form'
  | 'object_class_standalone_form'
  | 'task_template_form'

/** A custom component in a place of its own, with what it is told there. */
export interface Placed {
  component: number
  use: Use
  parameters: Fields
}

export interface Field {
  alias: string
  type: string
  required: boolean
  editable?: boolean
  write_only?: boolean
  validators?: Validator[]
  values?: Value[]
  autocomplete?: string
  schema?: Field[]
  label?: string
  description?: string
  default?: Json
  max_num_of_files?: number
  /** The custom component that asks for it: said by the form that asks, never by the API. */
  custom?: Placed
  /** `schema_by_{alias}`: the fields that count for each value of another field. */
  [schemaBy: `schema_by_${string}`]: { [value: string]: Field[] } | undefined
}

export interface Options {
  list?: { columns: Column[] }
  details: { schema: Field[]; [schemaBy: `schema_by_${string}`]: { [value: string]: Field[] } | undefined }
  restrictions?: { limit_items?: number; limit_items_in_batch?: number }
  batch?: { type: string; required: boolean; autocomplete?: string }
}
