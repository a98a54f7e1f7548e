import type { Resource } from '../generic/resource.ts'

export const integrations: Resource = {
  name: 'integrations',
  path: '/api/integrations/',
  route: '/admin/integrations',
  icon: 'plug',
  title: 'integrations',
  one: 'integrations.one',
  key: 'uuid',
  label: ({ name }) => `${name}`,
  columns: ['name', 'type', 'is_enabled', 'description', 'modified_at'],
  search: 'name__icontains',
  sections: [
    { title: 'section.integration', fields: ['type', 'name', 'description', 'is_enabled'] },
    {
      title: 'section.what',
      fields: ['url', 'secret', 'events', 'object_class', 'object_classes', 'redirect_uris', 'authentication_object'],
    },
  ],
  fromAddress: ['type'],
  deletes: 'integrations.deletes',
}
