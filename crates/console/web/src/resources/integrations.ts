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
  sections: [{ title: 'section.integration', fields: ['name', 'type', 'description', 'is_enabled'] }],
  deletes: 'integrations.deletes',
}
