// What the console knows of a resource beyond what its OPTIONS document says. `resources/` declares one a file.

import type { ComponentType } from 'react'
import type { Field, Fields, Instance, Json, Options } from '../api/shapes.ts'
import type { IconName } from '../kit/icons.tsx'
import { type Key, t } from '../texts.ts'
import type { LogParts } from './object-log.tsx'

/** A part of the API that somebody may do something with, and where. */
export interface Action {
  id: string
  text: Key
  isDangerous?: boolean
  /** The title of the question, with the name of the instance. It contains the verb of `text`. */
  title?: Key
  /** Asked before it is done. */
  question?: Key
  isShown: (instance: Instance) => boolean
  run: (instance: Instance) => Promise<unknown>
  /** Offered when it is done. */
  undo?: (instance: Instance) => Promise<unknown>
  done: Key | ((instance: Instance) => Key)
  /** What its answer holds that is shown this once. */
  secret?: Secret
}

/** A member of an answer that is shown once, and what is said of it. */
export interface Secret {
  field: string
  title: Key
  text: Key
  /** The member that says when it ends. */
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
  /** Begins an action of the resource, as the menu does. */
  begin?: ((id: string) => void) | undefined
}

export interface Section {
  title: Key
  /** In place of the title, where somebody else than we wrote it. */
  heading?: string
  fields: string[]
  hint?: Key
  /** What is done in an order: such sections are numbered. */
  isStep?: boolean
}

export type Inputs = { [alias: string]: ComponentType<InputProps> }

/** What a page of one shows beside what the schema gives. */
export interface Parts {
  inputs?: Inputs
  /** How fields are shown that no type describes. */
  views?: { [alias: string]: ComponentType<{ value: Json; instance: Instance; field: Field }> }
  /** What stands above the facts. */
  above?: ComponentType<PanelProps>[]
  panels?: ComponentType<PanelProps>[]
  /** What stands beside it. */
  side?: ComponentType<PanelProps>[]
  /** Whether a field counts beside the values of the others; those that do not are neither shown nor asked for. */
  counts?: (alias: string, values: Fields) => boolean
}

/** How a resource is read and sent whose instances are not flat. */
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
  /** The name in permissions, where that is another one. */
  permission?: string
  path: string
  /** Where one of them is, if that is not below the list. */
  instances?: string
  shape?: Shape
  /** What is said in place of `title` and `one` of a resource that is made at run time. */
  names?: { title: string; one: string }
  /** Below `/console`. */
  route: string
  icon: IconName
  title: Key
  /** What one of them is called, in the middle of a sentence. */
  one: Key
  key?: 'uuid' | 'alias'
  label: (instance: Instance) => string
  /** The columns at first, if the list has them. */
  columns: string[]
  /** The columns whose numbers are records. */
  records?: string[]
  /** What the list is filtered by and never shows. */
  filtersOnly?: string[]
  /** The UI configuration with the views of its list that everybody is offered. */
  sharedViews?: string
  /** The parameter that the search box fills. */
  search?: string
  sections: Section[]
  /** Fields that can be set while it is made, though they cannot be changed. */
  onlyOnCreate?: string[]
  /** What a new one holds when nothing else is sent, where the schema does not tell that. */
  initial?: Fields
  /** Fields that an address can fill in, as a link from elsewhere does: `?type=ai_mcp`. */
  fromAddress?: string[]
  /** Fields that are part of no form. */
  hidden?: string[]
  actions?: Action[]
  /** What goes along when one is deleted. */
  deletes?: Key | ((instance: Instance) => string)
  /** Whether one that is deleted can be restored for some days: `deletes` says so then. */
  isRestorable?: boolean
  /** Whether the name is typed before one is deleted. */
  asksName?: boolean
  /** What stands above the list, where it is empty. */
  nothing?: Key
  /** Another page of the same subject, to which the head of the list links. */
  beside?: { to: string; text: Key }
  /** The field of an answer that is shown once: of a create, and of actions that make a new one. */
  secret?: Secret
  canCreate?: boolean
  canDelete?: boolean
  /** False where the list has its own way to delete many. */
  canDeleteMany?: boolean
  hasLog?: boolean
  /** What it has parts of, whose changes its log shows, too. */
  logParts?: (instance: Instance) => LogParts
}

export const keyOf = (resource: Resource, instance: Instance): string => `${instance[resource.key ?? 'id']}`
export const pathOf = (resource: Resource, key: string): string => `${resource.instances ?? resource.path}${key}/`
export const routeOf = (resource: Resource, key: string): string => `${resource.route}/${key}`

/** What leaves the lines of the log about one alone. What has no number is there with its uuid before its name. */
export const logFilter = ({ name, key }: Resource, instance: Instance): string =>
  key === 'uuid'
    ? `resource=${name}&object_name__startswith=${instance.uuid}`
    : `resource=${name}&object_id=${instance.id}`

/** Whether something is allowed with an instance, as it says itself. */
export const may = (instance: Instance, action: string): boolean => instance._meta?.permissions?.[action] === true

/** What is said before one is deleted: what goes along, and whether it comes back. */
export function deletesOf({ deletes, isRestorable }: Resource, instance: Instance): string {
  const along = typeof deletes === 'function' ? deletes(instance) : deletes && t(deletes)
  return [...(along ? [along] : []), ...(isRestorable ? [] : [t('delete-text')])].join(' ')
}

export const titleOf = ({ names, title }: Resource): string => names?.title ?? t(title)
export const oneOf = ({ names, one }: Resource): string => names?.one ?? t(one)
