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
    { title: 'section.provider', fields: ['name', 'provider'], isStep: true },
    {
      title: 'single-sign-on.identifiers',
      fields: ['tenant_id', 'client_id', 'client_secret'],
      hint: 'single-sign-on.identifiers.hint',
      isStep: true,
    },
    {
      title: 'single-sign-on.addresses',
      fields: ['redirect_uri', 'logout_url'],
      hint: 'single-sign-on.addresses.hint',
      isStep: true,
    },
    {
      title: 'section.accounts',
      fields: ['is_enabled', 'auto_create_user', 'roles', 'is_docs_addin_enabled'],
      hint: 'single-sign-on.accounts.hint',
      isStep: true,
    },
  ],
  // A new configuration shows a text instead of the addresses, which do not exist yet.
  onlyOnCreate: ['redirect_uri'],
  deletes: 'single-sign-on.deletes',
}
