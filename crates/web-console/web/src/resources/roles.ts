import type { Resource } from '../generic/resource.ts'

export const roles: Resource = {
  name: 'roles',
  path: '/api/roles/',
  route: '/admin/roles',
  icon: 'key-round',
  title: 'roles',
  one: 'roles.one',
  label: ({ name }) => `${name}`,
  columns: ['name', 'description', 'modified_at', 'modified_by'],
  search: 'name__icontains',
  sections: [
    { title: 'section.role', fields: ['name', 'description'] },
    { title: 'section.permissions', fields: ['permissions'], hint: 'roles.permissions' },
  ],
  deletes: 'roles.deletes',
  nothing: 'roles.nothing',
}
