// What the menu offers to whoever is signed in, by the rights that the API tells.

import { useQuery } from '@tanstack/react-query'
import { page } from '../api/query.ts'
import { session } from '../api/session.ts'
import type { IconName } from '../kit/icons.tsx'
import { RESOURCES } from '../resources/index.ts'
import { type Key, t } from '../texts.ts'
import { useSettings } from './settings.ts'

export interface Entry {
  to: string
  text: string
  icon: IconName
  keys?: string
}

export interface Part {
  title: Key | undefined
  entries: Entry[]
}

const KEYS: { [route: string]: string } = {
  '/': 'g h',
  '/tasks': 'g t',
  '/admin/users': 'g u',
  '/admin/roles': 'g r',
  '/admin/classes': 'g c',
  '/admin/log': 'g l',
}

const entry = (to: string, text: Key, icon: IconName): Entry => ({
  to,
  text: t(text),
  icon,
  ...(KEYS[to] && { keys: KEYS[to] }),
})

/** The classes whose records may be seen: those that are pinned, the first of the others, and the way to all. */
export function useMenu(): Part[] {
  const isPerson = session()?.password_change_required === false
  const { data } = useQuery({
    ...page('/api/object-classes/', `ordering=name&limit=${CLASSES}`),
    staleTime: 60_000,
    enabled: isPerson,
  })
  const [{ pinned }] = useSettings()
  const parts = menu()
  if (!data || data.results.length === 0) return parts
  const first = data.results.map(({ name, alias }) => ({ name: `${name}`, alias: `${alias}` }))
  const others = first.filter(({ alias }) => pinned.every((one) => one.alias !== alias))
  const classes: Part = {
    title: 'menu.classes',
    entries: [
      ...[...pinned, ...others]
        .slice(0, Math.max(CLASSES, pinned.length))
        .map(({ name, alias }): Entry => ({ to: `/records/${alias}`, text: name, icon: 'file-text' })),
      entry('/records', 'records.all-classes', 'folder'),
    ],
  }
  return parts.toSpliced(1, 0, classes)
}

const CLASSES = 10

/** What whoever is signed in may go to, but for the classes of records. */
export function menu(): Part[] {
  const permissions = session()?.permissions ?? {}
  const may = (resource: string, action: string) => permissions[resource]?.[action] === true
  const isAdmin = ['super_admin', 'full', 'service_internal'].includes(session()?.user?.account_type ?? '')
  const of = (...names: string[]) =>
    RESOURCES.filter(({ permission, name }) => names.includes(name) && may(permission ?? name, 'list')).map(
      ({ route, title, icon }) => entry(route, title, icon),
    )
  const parts: Part[] = [
    {
      title: undefined,
      entries: [
        entry('/', 'home', 'house'),
        entry('/tasks', 'tasks', 'list-checks'),
        entry('/forms', 'forms', 'file-text'),
      ],
    },
    { title: 'menu.people', entries: [...of('users'), ...of('roles'), ...of('user_groups')] },
    {
      title: 'menu.sign-in',
      entries: [
        ...(may('standard_authentication', 'list') ? [entry('/admin/sign-in', 'sign-in', 'shield')] : []),
        ...of('single_sign_on'),
        ...(may('administration_log', 'list') ? [entry('/admin/sign-ins', 'sign-ins', 'history')] : []),
      ],
    },
    { title: 'menu.records', entries: isAdmin ? [...of('object_classes'), ...of('task_templates')] : [] },
    {
      title: 'menu.connected',
      entries: isAdmin
        ? [...of('integrations'), ...of('mcp_connectors'), ...of('authentication_objects'), ...of('custom_components')]
        : [],
    },
    {
      title: 'menu.organisation',
      entries: [
        ...(may('company_details', 'view') ? [entry('/admin/company', 'company', 'building-2')] : []),
        ...(may('outbound_mail_setup', 'view') ? [entry('/admin/mail', 'mail', 'mail')] : []),
        ...(may('administration_log', 'list') ? [entry('/admin/log', 'log', 'file-text')] : []),
        ...(isAdmin && may('files', 'list') ? [entry('/admin/files', 'public-files', 'upload')] : []),
        ...(isAdmin ? [entry('/admin/limits', 'limits', 'gauge')] : []),
      ],
    },
  ]
  return parts.filter(({ entries }) => entries.length > 0)
}
