import type { Resource } from '../generic/resource.ts'
import { t } from '../texts.ts'

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
  deletes: ({ num_of_records }) => t('object-classes.deletes', { count: Number(num_of_records ?? 0) }),
  asksName: true,
  // Each deletion asks for the name.
  canDeleteMany: false,
  nothing: 'object-classes.nothing',
  logParts: ({ id }) => ({
    resource: 'object_class_fields',
    list: `/api/object-classes/${id}/fields/`,
    text: 'log.field',
  }),
}
