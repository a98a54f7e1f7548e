// The shapes of the API. Those in `openapi.json` are generated.

import type { components } from './schemas.ts'

type Schemas = components['schemas']

export type Reference = Schemas['UserReference']
export type User = Schemas['Me']
/** Everything that a start needs. Members about the account are null while the password must be changed. */
export type Start = Schemas['BrowserToken']
/** The global permissions: an action of a resource is true or missing. */
export type Permissions = Schemas['OwnPermissions']
/** A result of the search over all records, users and groups. */
export type Found = Schemas['SearchResult']
/** A stored file, as in the labels. */
export type FileLabel = Schemas['FileLabel']
/** The access of a user to a record, with its reasons. */
export type Accessible = Schemas['ObjectRecordAccess']
export type Way = Accessible['ways'][number]
/** The last document that a template generated from a record. */
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
/** The places that show custom components. */
export type Use = keyof Schemas['CustomComponentUseCreate']

// Records have the fields of their class. The console shows most other resources by their OPTIONS documents, without
// code for each.

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

// OPTIONS documents: `openapi.json` only says that they are objects (`SchemaDocument`).

export interface Choice {
  value: number | string
  text: string
}

export interface Validator {
  name: 'min_length' | 'max_length' | 'min_value' | 'max_value' | 'max_items' | 'reserved' | 'regex'
  value: number | string | string[]
}

/** A value of an enumeration. An action of permissions names the actions that it requires. */
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
  /** A parameter of the list that is not a value of its rows. */
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
  /** The custom component for the field. The form sets it, never the API. */
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

/** A custom component in a place, with its input. The API has no such shape. */
export interface Placed {
  component: number
  use: Use
  parameters: Fields
  /** The fields of the record whose values the component gets. */
  fields?: string[]
}
