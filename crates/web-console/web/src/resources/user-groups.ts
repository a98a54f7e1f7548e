import type { Resource } from '../generic/resource.ts'

export const userGroups: Resource = {
  name: 'user_groups',
  path: '/api/user-groups/',
  route: '/admin/groups',
  icon: 'users',
  title: 'user-groups',
  one: 'user-groups.one',
  label: ({ name }) => `${name}`,
  columns: ['name', 'description', 'created_at', 'modified_at', 'modified_by'],
  filtersOnly: ['member', 'is_provisioned'],
  search: 'name__icontains',
  sections: [{ title: 'section.group', fields: ['name', 'description'] }],
  deletes: 'user-groups.deletes',
}
