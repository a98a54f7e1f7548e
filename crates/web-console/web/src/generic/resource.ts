// The declaration of a resource: everything that its OPTIONS document does not contain. `resources/` has one file for
// each.

import type { ComponentType } from 'react'
import type { Field, Fields, Instance, Json, Options } from '../api/shapes.ts'
import type { IconName } from '../kit/icons.tsx'
import { type Key, t } from '../texts.ts'
import type { LogParts } from './object-log.tsx'

/** An action of the API on an instance. */
export interface Action {
  id: string
  text: Key
  isDangerous?: boolean
  /** The title of the question, with the name of the instance. It contains the verb of `text`. */
  title?: Key
  /** The question before the action. */
  question?: Key
  isShown: (instance: Instance) => boolean
  run: (instance: Instance) => Promise<unknown>
  /** Undoes the action. */
  undo?: (instance: Instance) => Promise<unknown>
  done: Key | ((instance: Instance) => Key)
  /** The secret in its answer, which is shown once. */
  secret?: Secret
}

/** A member of an answer that is shown once, with its texts. */
export interface Secret {
  field: string
  title: Key
  text: Key
  /** The member with the end of its validity. */
  until?: string
}

export interface InputProps {
  field: Field
  name: string
  value: Json
  onChange: (value: Json) => void
  /** The instance as it was read; undefined while it is being made. */
  instance: Instance | undefined
  values: { [alias: string]: Json }
}

export interface PanelProps {
  instance: Instance
  path: string
  /** Starts an action of the resource, like the menu. */
  begin?: ((id: string) => void) | undefined
}

export interface Section {
  title: Key
  /** Replaces the title by a text that a user wrote. */
  heading?: string
  fields: string[]
  hint?: Key
  /** True for the steps of a procedure: such sections are numbered. */
  isStep?: boolean
}

export type Inputs = { [alias: string]: ComponentType<InputProps> }

/** The parts of the page of one instance beside those from the schema. */
export interface Parts {
  inputs?: Inputs
  /** Views of fields that the type does not describe. */
  views?: { [alias: string]: ComponentType<{ value: Json; instance: Instance; field: Field }> }
  /** The panels above the facts. */
  above?: ComponentType<PanelProps>[]
  panels?: ComponentType<PanelProps>[]
  /** The panels beside the facts. */
  side?: ComponentType<PanelProps>[]
  /** True if a field applies with these values of the others. Other fields are neither shown nor asked for. */
  counts?: (alias: string, values: Fields) => boolean
}

/** Converts a resource whose instances are not flat. */
export interface Shape {
  options: (described: Options) => Options
  instance: (instance: Instance) => Instance
  body: (values: Fields) => Fields
  /** The messages of a refused body, by the names of the flat fields. */
  messages: (body: Fields) => Fields
}

export interface Resource {
  /** The name in permissions and the log. */
  name: string
  /** The name in permissions, if it differs. */
  permission?: string
  path: string
  /** The path of the instances, if it is not below the list. */
  instances?: string
  shape?: Shape
  /** Replaces `title` and `one` of a resource that is declared at run time. */
  names?: { title: string; one: string }
  /** Below `/console`. */
  route: string
  icon: IconName
  title: Key
  /** The name of one instance in the middle of a sentence. */
  one: Key
  key?: 'uuid' | 'alias'
  label: (instance: Instance) => string
  /** The columns at first, if the list has them. */
  columns: string[]
  /** The columns whose values are ids of records. */
  records?: string[]
  /** Columns that are filters only. */
  filtersOnly?: string[]
  /** The UI configuration with the views of its list that everybody is offered. */
  sharedViews?: string
  /** The parameter that the search box fills. */
  search?: string
  sections: Section[]
  /** Fields that can be set while it is made, though they cannot be changed. */
  onlyOnCreate?: string[]
  /** The first values of a new instance that the schema does not contain. */
  initial?: Fields
  /** Fields that an address can fill in, as a link from elsewhere does: `?type=ai_mcp`. */
  fromAddress?: string[]
  /** Fields that are part of no form. */
  hidden?: string[]
  actions?: Action[]
  /** The other objects that a deletion deletes, too. */
  deletes?: Key | ((instance: Instance) => string)
  /** True if a deleted instance can be restored for some days. `deletes` then says so. */
  isRestorable?: boolean
  /** True if the user types the name to confirm a deletion. */
  asksName?: boolean
  /** The text of an empty list. */
  nothing?: Key
  /** Another page of the same subject. The head of the list links to it. */
  beside?: { to: string; text: Key }
  /** The field of an answer that is shown once: of a create, and of actions that make a new one. */
  secret?: Secret
  canCreate?: boolean
  canDelete?: boolean
  /** False if the list has its own deletion of many. */
  canDeleteMany?: boolean
  hasLog?: boolean
  /** The parts of an instance whose changes its log includes. */
  logParts?: (instance: Instance) => LogParts
}

export const keyOf = (resource: Resource, instance: Instance): string => `${instance[resource.key ?? 'id']}`
export const pathOf = (resource: Resource, key: string): string => `${resource.instances ?? resource.path}${key}/`
export const routeOf = (resource: Resource, key: string): string => `${resource.route}/${key}`

/**
 * The filter for the log entries of one instance. An instance without a number is found by its uuid, which precedes its
 * name.
 */
export const logFilter = ({ name, key }: Resource, instance: Instance): string =>
  key === 'uuid'
    ? `resource=${name}&object_name__startswith=${instance.uuid}`
    : `resource=${name}&object_id=${instance.id}`

/** True if the instance permits the action. */
export const may = (instance: Instance, action: string): boolean => instance._meta?.permissions?.[action] === true

/** The text before a deletion: other deleted objects, and whether the instance can be restored. */
export function deletesOf({ deletes, isRestorable }: Resource, instance: Instance): string {
  const along = typeof deletes === 'function' ? deletes(instance) : deletes && t(deletes)
  return [...(along ? [along] : []), ...(isRestorable ? [] : [t('delete-text')])].join(' ')
}

export const titleOf = ({ names, title }: Resource): string => names?.title ?? t(title)
export const oneOf = ({ names, one }: Resource): string => names?.one ?? t(one)
