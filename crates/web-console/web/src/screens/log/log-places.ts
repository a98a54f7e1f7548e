// The page of the console for the subject of an entry in the administration log.

import type { Fields, Instance, Json } from '../../api/shapes.ts'

/** Resources with a page of their own that is not a list. */
const PLACES: { [resource: string]: string } = {
  standard_authentication: '/admin/sign-in',
  company_details: '/admin/company',
  outbound_mail_setup: '/admin/mail',
  limits: '/admin/limits',
  files: '/admin/files',
  custom_component_repositories: '/admin/components',
  scim_tokens: '/admin/provisioning',
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/

/** The new value of a field in the changes, else the old one. */
function changed({ changes }: Instance, alias: string): Json {
  const pair = (changes as Fields | null)?.[alias]
  return Array.isArray(pair) ? (pair[1] ?? pair[0] ?? null) : null
}

/** The name of an object without its uuid, which precedes the name of an object without a number. */
export function nameIn({ object_name }: Instance): string {
  const text = `${object_name ?? ''}`
  const uuid = UUID.exec(text)?.[0]
  return uuid ? text.slice(uuid.length).trim() || text : text
}

/**
 * Undefined without such a page, or if the object was deleted. `routes`: those of the lists, by the name of the
 * resource.
 */
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
  // A part of another object is shown on the page of that object, if the changes name it.
  const pathOfOwner = (alias: string, list: string | undefined) => {
    const owner = changed(line, alias)
    return list && owner !== null ? `${list}/${owner}` : undefined
  }
  return (
    pathOfOwner('object_class', routes.object_classes) ??
    pathOfOwner('user_group', routes.user_groups) ??
    pathOfOwner('user', routes.users)
  )
}
