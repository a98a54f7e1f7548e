import type { Resource } from '../generic/resource.ts'

/** Tasks have pages of their own; the list is the generic one. */
export const tasks: Resource = {
  name: 'tasks',
  path: '/api/tasks/',
  route: '/tasks',
  icon: 'list-checks',
  title: 'tasks',
  one: 'tasks.one',
  label: ({ name }) => `${name}`,
  columns: ['name', 'object_record', 'status', 'due_at', 'assignees', 'assignee_groups', 'created_at'],
  records: ['object_record'],
  search: 'name__icontains',
  sections: [],
  nothing: 'tasks.nothing',
}
