import type { Resource } from '../generic/resource.ts'

export const authenticationObjects: Resource = {
  name: 'authentication_objects',
  path: '/api/authentication-objects/',
  route: '/admin/authentication-objects',
  icon: 'lock',
  title: 'authentication-objects',
  one: 'authentication-objects.one',
  label: ({ name }) => `${name}`,
  columns: ['name', 'provider', 'modified_at', 'modified_by'],
  sections: [
    { title: 'section.authentication-object', fields: ['name', 'provider'] },
    { title: 'section.token', fields: ['token_url', 'client_id', 'client_secret', 'scope'] },
  ],
}
