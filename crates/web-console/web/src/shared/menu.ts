// The menu of the signed-in user, by their permissions.

import { useQueries, useQuery } from '@tanstack/react-query'
import { page } from '../api/query.ts'
import { get } from '../api/request.ts'
import { isUnrestricted, session } from '../api/session.ts'
import type { Page } from '../api/shapes.ts'
import { BASE } from '../generic/go.tsx'
import { useSettings } from '../generic/settings.ts'
import { useConfiguration } from '../generic/ui-config.ts'
import { type Menu, readMenu } from '../generic/ui-contents.ts'
import type { IconName } from '../kit/icons.tsx'
import { RESOURCES } from '../resources/index.ts'
import { type Key, t } from '../texts.ts'

export interface Entry {
  to: string
  text: string
  icon: IconName
  keys?: string
}

export interface Part {
  title: Key | undefined
  /** Replaces the title by a text that a user wrote. */
  heading?: string
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

/** A class by its alias; null if it does not exist or is not visible. */
export const classByAlias = (alias: string) => ({
  queryKey: [CLASSES, 'alias', alias],
  queryFn: async () => (await get<Page>(`${CLASSES}?alias=${encodeURIComponent(alias)}&limit=1`)).results[0] ?? null,
  staleTime: 60_000,
})

/**
 * The menu: the sections of the interface, then the classes with visible records. Pinned classes come first. Without
 * sections of the interface, the first classes by name and a link to all classes follow.
 */
export function useMenu(): Part[] {
  const isPerson = isUnrestricted()
  const { data } = useQuery({
    ...page(CLASSES, `ordering=name&limit=${FIRST}`),
    staleTime: 60_000,
    enabled: isPerson,
  })
  const [{ pinned }] = useSettings()
  const { content, isKnown } = useConfiguration('menu', readMenu, isPerson)
  const first = (data?.results ?? []).map(({ name, alias }) => ({ name: `${name}`, alias: `${alias}` }))
  const names = useNames(content, first, !data || data.next === null)
  const parts = isPerson ? menu() : []
  if (!isKnown || !data) return parts
  const configured = sectionsOf(content, names)
  if (first.length === 0) return parts.toSpliced(1, 0, ...configured)
  const others =
    content.sections.length > 0 ? [] : first.filter(({ alias }) => pinned.every((one) => one.alias !== alias))
  const classes: Part = {
    title: 'menu.classes',
    entries: [
      ...[...pinned, ...others]
        .slice(0, Math.max(FIRST, pinned.length))
        .map(({ name, alias }): Entry => ({ to: `/records/${alias}`, text: name, icon: 'file-text' })),
      entry('/records', 'records.all-classes', 'folder'),
    ],
  }
  return parts.toSpliced(1, 0, ...configured, classes)
}

const CLASSES = '/api/object-classes/'
const FIRST = 10

interface Named {
  alias: string
  name: string
}

/** The names of the visible classes of a menu. A class beyond the first page is read by its alias. */
function useNames({ sections }: Menu, first: Named[], isAll: boolean): Map<string, string> {
  const nameByAlias = new Map(first.map(({ alias, name }) => [alias, name]))
  const aliases = sections.flatMap(({ items }) => items.flatMap((item) => item.class ?? []))
  const others = isAll ? [] : [...new Set(aliases)].filter((alias) => !nameByAlias.has(alias))
  const queries = useQueries({ queries: others.map(classByAlias) })
  for (const [n, alias] of others.entries()) {
    const objectClass = queries[n]?.data
    if (objectClass) nameByAlias.set(alias, `${objectClass.name}`)
  }
  return nameByAlias
}

function sectionsOf({ sections }: Menu, names: Map<string, string>): Part[] {
  const parts = sections.map(({ title, items }): Part => {
    const entries = items.flatMap((item): Entry | [] => {
      if (item.link === undefined) {
        const name = names.get(`${item.class}`)
        return name ? { to: `/records/${item.class}`, text: item.label ?? name, icon: 'file-text' } : []
      }
      const isHere = item.link.startsWith(BASE)
      return {
        to: isHere ? item.link.slice(BASE.length) : item.link,
        text: item.label ?? item.link,
        icon: isHere ? 'chevron-right' : 'external-link',
      }
    })
    return { title: undefined, ...(title && { heading: title }), entries }
  })
  return parts.filter(({ entries }) => entries.length > 0)
}

/** The pages that the signed-in user may open, except those of records. */
export function menu(): Part[] {
  const permissions = session()?.permissions ?? {}
  const may = (resource: string, action: string) => permissions[resource]?.[action] === true
  const accountType = session()?.user?.account_type ?? ''
  const isSuper = ['super_admin', 'service_internal'].includes(accountType)
  const isAdmin = isSuper || accountType === 'full'
  const entriesOf = (...names: string[]) =>
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
    { title: 'menu.people', entries: [...entriesOf('users'), ...entriesOf('roles'), ...entriesOf('user_groups')] },
    {
      title: 'menu.sign-in',
      entries: [
        ...(may('standard_authentication', 'list') ? [entry('/admin/sign-in', 'sign-in', 'shield')] : []),
        ...entriesOf('single_sign_on'),
        ...(isSuper ? [entry('/admin/provisioning', 'provisioning', 'users')] : []),
        ...(may('administration_log', 'list') ? [entry('/admin/sign-ins', 'sign-ins', 'history')] : []),
      ],
    },
    { title: 'menu.records', entries: isAdmin ? [...entriesOf('object_classes'), ...entriesOf('task_templates')] : [] },
    {
      title: 'menu.connected',
      entries: isAdmin
        ? [
            ...entriesOf('integrations'),
            ...entriesOf('mcp_connectors'),
            ...entriesOf('authentication_objects'),
            ...entriesOf('custom_components'),
          ]
        : [],
    },
    {
      title: 'menu.organisation',
      entries: [
        ...(may('company_details', 'view') ? [entry('/admin/company', 'company', 'building-2')] : []),
        ...(may('outbound_mail_setup', 'view') ? [entry('/admin/mail', 'mail', 'mail')] : []),
        ...(may('administration_log', 'list') ? [entry('/admin/log', 'log', 'file-text')] : []),
        ...(may('ui_config', 'create') ? [entry('/admin/interface', 'interface', 'layout-dashboard')] : []),
        ...(isAdmin && may('files', 'list') ? [entry('/admin/files', 'public-files', 'upload')] : []),
        ...(isSuper ? [entry('/admin/limits', 'limits', 'gauge')] : []),
      ],
    },
  ]
  return parts.filter(({ entries }) => entries.length > 0)
}
