// The tasks of a record, and a new one.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { anything, invalidate, page } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import type { Choice, Fields, Json, Page } from '../../api/shapes.ts'
import { Failure } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import { Link } from '../../generic/go.tsx'
import type { PanelProps } from '../../generic/resource.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Dialog } from '../../kit/dialogs.tsx'
import { useShortcuts } from '../../kit/keys.ts'
import { say } from '../../kit/toasts.tsx'
import { Moment, Tag } from '../../kit/values.tsx'
import { named, t } from '../../texts.ts'
import { TaskInputs } from './bulk.tsx'
import look from './records.module.css'

const SHOWN = 10

export function Tasks({ instance, path }: PanelProps) {
  const [isStarting, setIsStarting] = useState(false)
  const tasksQuery = useQuery(page('/api/tasks/', `object_record=${instance.id}&ordering=-id&limit=${SHOWN}`))
  const allowed = (instance._meta?.permissions as { tasks?: { [action: string]: boolean } } | undefined)?.tasks
  const results = tasksQuery.data?.results ?? []
  useShortcuts(allowed?.create ? [{ text: t('records.tasks.start'), run: () => setIsStarting(true) }] : [])
  if (tasksQuery.error || (results.length === 0 && !allowed?.create)) return null
  return (
    <section className={generic.section}>
      <h2>{t('records.tasks')}</h2>
      {tasksQuery.data && results.length === 0 && <p className={generic.none}>{t('nothing-yet')}</p>}
      <ul className={look.rows}>
        {results.map((task) => (
          <li key={`${task.id}`} className={look.row}>
            <Link to={`/tasks/${task.id}`}>{`${task.name}`}</Link>
            <span className={look.aside}>
              {typeof task.due_at === 'string' && <Moment value={task.due_at} />}
              <Tag value={`${task.status}`}>{named('field', `${task.status}`)}</Tag>
            </span>
          </li>
        ))}
      </ul>
      {tasksQuery.data?.next && (
        <Link to={`/tasks?object_record=${instance.id}`}>
          {t('show-all', { count: tasksQuery.data.filtered_count ?? SHOWN })}
        </Link>
      )}
      {allowed?.create && (
        <div>
          <Button icon="plus" onPress={() => setIsStarting(true)}>
            {t('records.tasks.start')}
          </Button>
        </div>
      )}
      {isStarting && <Start id={Number(instance.id)} path={path} onClose={() => setIsStarting(false)} />}
    </section>
  )
}

function Start({ id, path, onClose }: { id: number; path: string; onClose: () => void }) {
  const templates = useQuery(anything<Page>(`${path}task-templates/?ordering=name`))
  const [template, setTemplate] = useState<Json>(null)
  const [assignees, setAssignees] = useState<Choice[]>([])
  const [error, setError] = useState<unknown>()
  const [isBusy, setIsBusy] = useState(false)
  const start = async () => {
    setIsBusy(true)
    try {
      const body: Fields = {
        task_template: template,
        object_record: id,
        assignees: assignees.map(({ value }) => value),
      }
      const { data } = await call<Fields>('POST', '/api/tasks/', { body })
      say(t('created-one', { name: `${data.name}` }))
      void invalidate('/api/tasks/')
      onClose()
    } catch (refused) {
      setError(refused)
      setIsBusy(false)
    }
  }
  return (
    <Dialog title={t('records.tasks.start')} isOpen onClose={onClose}>
      {templates.error && <Failure error={templates.error} />}
      {error !== undefined && <Failure error={error} />}
      <TaskInputs
        path={`${path}task-templates/?ordering=name`}
        templates={templates.data}
        template={template}
        assignees={assignees}
        onTemplate={setTemplate}
        onAssignees={setAssignees}
      />
      <div className={css.actions}>
        <Button look="primary" isDisabled={isBusy || template === null} onPress={() => void start()}>
          {t('records.tasks.start')}
        </Button>
        <Button look="quiet" onPress={onClose}>
          {t('cancel')}
        </Button>
      </div>
    </Dialog>
  )
}
