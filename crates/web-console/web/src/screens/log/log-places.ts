// Where in the console that stands which a line of the administration log is about.

import type { Fields, Instance, Json } from '../../api/shapes.ts'

/** What has a part of the console of its own, without being one of a list. */
const PLACES: { [resource: string]: string } = {
  standard_authentication: '/admin/sign-in',
  company_details: '/admin/company',
  outbound_mail_setup: '/admin/mail',
  limits: '/admin/limits',
  files: '/admin/files',
  custom_component_repositories: '/admin/components',
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/

/** The old or new value of a field in the changes, whichever there is. */
function changed({ changes }: Instance, alias: string): Json {
  const pair = (changes as Fields | null)?.[alias]
  return Array.isArray(pair) ? (pair[1] ?? pair[0] ?? null) : null
}

/** What has no number is there with its uuid before its name, which says nothing to people. */
export function nameIn({ object_name }: Instance): string {
  const text = `${object_name ?? ''}`
  const uuid = UUID.exec(text)?.[0]
  return uuid ? text.slice(uuid.length).trim() || text : text
}

/** Undefined where there is no such part, or where it is gone. `routes`: those of the lists, by the name of the resource. */
export function placeOf(line: Instance, routes: { [resource: string]: string }): string | undefined {
  const resource = `${line.resource}`
  if (PLACES[resource]) return PLACES[resource]
  const uuid = UUID.exec(`${line.object_name}`)?.[0]
  const route = routes[resource]
  if (route) {
    const key = line.object_id ?? uuid
    return line.action === 'delete' || !key ? route : `${route}/${key}`
  }
  if (resource === 'object_class_forms' && uuid && line.action !== 'delete') {
    const owner = changed(line, 'object_class')
    return owner === null ? `/forms/${uuid}` : `${routes.object_classes}/${owner}/forms/${uuid}`
  }
  // What is a part of something else is shown there, if the changes tell of what.
  const of = (alias: string, list: string | undefined) => {
    const owner = changed(line, alias)
    return list && owner !== null ? `${list}/${owner}` : undefined
  }
  return of('object_class', routes.object_classes) ?? of('user_group', routes.user_groups) ?? of('user', routes.users)
}
