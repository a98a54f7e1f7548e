// The shapes of the API. Those that `openapi.json` tells are generated; of the others it cannot.

import type { components } from './schemas.ts'

type Schemas = components['schemas']

export type Reference = Schemas['UserReference']
export type User = Schemas['Me']
/** All that a start needs; what is of an account is null while the password must be changed. */
export type Start = Schemas['BrowserToken']
/** The global permissions: an action of a resource is true or missing. */
export type Permissions = Schemas['OwnPermissions']
/** What a search over everything finds. */
export type Found = Schemas['SearchResult']
/** A file that is there, as labels tell. */
export type FileLabel = Schemas['FileLabel']
/** What somebody may do with a record, and what gives it. */
export type Accessible = Schemas['ObjectRecordAccess']
export type Way = Accessible['ways'][number]
/** The last document that was made of a record by a template. */
export type Run = Schemas['GeneratedDocument']
export type TemplateCheck = Schemas['DocumentTemplateCheck']
export type MergeField = Schemas['CheckedMergeField']
export type LoggedOut = Schemas['LoggedOut']
export type TokenTrial = Schemas['AuthenticationObjectTest']
export type SignInTrial = Schemas['ProviderAddress']
export type MessagePreview = Schemas['MessagePreview']
export type ExportLink = Schemas['ExportLink']
export type Limits = Schemas['Limits']
export type Company = Schemas['CompanyDetails']
export type MailSettings = Schemas['OutboundMailSettings']
export type Provider = Schemas['EnabledSingleSignOn']
/** Where custom components are shown. */
export type Use = keyof Schemas['CustomComponentUseCreate']

// Records have the fields that their class declares, and the console shows most other things by their OPTIONS documents,
// without knowing what they are.

/** A whole number beyond 2^53 is a bigint (`json.ts`). */
export type Json = null | boolean | number | bigint | string | Json[] | { [key: string]: Json }
export type Fields = { [alias: string]: Json }

export interface Meta {
  labels?: { [alias: string]: Json }
  permissions?: { [action: string]: boolean }
}

/** An instance of any resource. */
export type Instance = Fields & { _meta?: Meta & Json }

export type Page = Schemas['Page'] & { results: Instance[] }

/** The configuration may be any JSON, which generated types call unknown. */
export type FormConfiguration = Record<keyof Schemas['ObjectClassFormConfiguration'], Json>

// OPTIONS documents: `openapi.json` says that they are objects, and no more (`SchemaDocument`).

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

/** A custom component in a place of its own, with what it is told there. None of the API's. */
export interface Placed {
  component: number
  use: Use
  parameters: Fields
  /** The fields of the record beside it whose values it is told. */
  fields?: string[]
}
