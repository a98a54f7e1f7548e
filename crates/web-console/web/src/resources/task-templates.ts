import type { Resource } from '../generic/resource.ts'

export const taskTemplates: Resource = {
  name: 'task_templates',
  path: '/api/task-templates/',
  route: '/admin/task-templates',
  icon: 'list-checks',
  title: 'task-templates',
  one: 'task-templates.one',
  label: ({ name }) => `${name}`,
  columns: ['name', 'task_type', 'task_creation', 'num_of_tasks_created', 'last_task_created'],
  search: 'name__icontains',
  sections: [
    { title: 'section.template', fields: ['name', 'description', 'plugin_config', 'task_creation'] },
    {
      title: 'section.due',
      fields: ['complete_by', 'complete_by_date', 'complete_by_time_value', 'complete_by_time_unit'],
    },
    {
      title: 'section.expiry',
      fields: [
        'expiry',
        'expiry_date',
        'expiry_time_value',
        'expiry_time_unit',
        'expiry_time_rel_to',
        'expiry_day',
        'expiry_periodic_day',
        'expiry_periodic_month',
      ],
    },
    { title: 'section.reminders', fields: ['renewals', 'reminders'] },
  ],
  onlyOnCreate: ['task_creation'],
  deletes: 'task-templates.deletes',
}
