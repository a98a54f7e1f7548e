import type { Resource } from '../generic/resource.ts'

export const singleSignOn: Resource = {
  name: 'single_sign_on',
  path: '/api/single-sign-on/',
  route: '/admin/single-sign-on',
  icon: 'log-in',
  title: 'single-sign-on',
  one: 'single-sign-on.one',
  label: ({ name }) => `${name}`,
  columns: ['name', 'provider', 'is_enabled', 'auto_create_user', 'modified_at'],
  search: 'name__icontains',
  sections: [
    { title: 'section.provider', fields: ['name', 'provider', 'is_enabled'] },
    {
      title: 'section.at-the-provider',
      fields: ['redirect_uri', 'logout_url', 'client_id', 'tenant_id', 'client_secret'],
      hint: 'single-sign-on.copy',
    },
    { title: 'section.accounts', fields: ['auto_create_user', 'roles', 'is_docs_addin_enabled'] },
  ],
  parts: () => import('./single-sign-on.parts.tsx'),
  deletes: 'single-sign-on.deletes',
}
