import type { Resource } from '../generic/resource.ts'

export const objectClasses: Resource = {
  name: 'object_classes',
  path: '/api/object-classes/',
  route: '/admin/classes',
  icon: 'folder',
  title: 'object-classes',
  one: 'object-classes.one',
  label: ({ name }) => `${name}`,
  columns: ['name', 'alias', 'num_of_records', 'modified_at', 'modified_by'],
  search: 'name__icontains',
  sections: [{ title: 'section.class', fields: ['name', 'alias', 'description', 'label_field', 'num_of_records'] }],
  onlyOnCreate: ['alias'],
  parts: () => import('./object-classes.parts.tsx'),
  deletes: 'object-classes.deletes',
  nothing: 'object-classes.nothing',
}
