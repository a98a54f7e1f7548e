import type { Resource } from '../generic/resource.ts'

export const customComponents: Resource = {
  name: 'custom_components',
  permission: 'custom_component',
  path: '/api/custom-components/',
  route: '/admin/components',
  icon: 'puzzle',
  title: 'custom-components',
  one: 'custom-components.one',
  label: ({ name }) => `${name}`,
  columns: ['name', 'status', 'is_enabled', 'version', 'publisher', 'modified_at'],
  sections: [
    { title: 'section.component', fields: ['name', 'description', 'repository', 'repository_url', 'is_enabled'] },
    { title: 'section.version', fields: ['version', 'publisher', 'publisher_url', 'index_url', 'available_use'] },
  ],
}
