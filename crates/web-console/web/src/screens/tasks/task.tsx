// One task: its request, its answer, its steps, and its log.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { instance as instanceQuery, invalidate, options, queries } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import { session } from '../../api/session.ts'
import type { Choice, Fields, Instance, Json, Reference } from '../../api/shapes.ts'
import { AskFirst } from '../../generic/ask-first.tsx'
import { Edit } from '../../generic/edit.tsx'
import { useEditing } from '../../generic/editing.ts'
import { Failure, Reading } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import { Link, useGo, useHere } from '../../generic/go.tsx'
import { type InputProps, may } from '../../generic/resource.ts'
import { type Action, Button, Menu } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { MultiChooser } from '../../kit/fields.tsx'
import { useShortcuts } from '../../kit/keys.ts'
import { say } from '../../kit/toasts.tsx'
import { Moment, nameOf, Value } from '../../kit/values.tsx'
import { labelOf, t } from '../../texts.ts'
import { Answer, Answered, formOf } from './answer.tsx'
import { performStep, StepDialog, TASKS } from './step-dialog.tsx'
import { isLate, type Step, stateOf, stepsOf } from './steps.ts'
import look from './tasks.module.css'
import { Timeline } from './timeline.tsx'

/** Assignees are objects with names in answers, and ids in bodies. */
function Assigned({ field, name, value, onChange, instance }: InputProps) {
  const [names] = useState(() => new Map<Json, string>())
  const nameIn = (one: Fields) => ('username' in one ? nameOf(one as unknown as Reference) : `${one.name}`)
  for (const list of [instance?.[field.alias], value])
    for (const one of Array.isArray(list) ? list : [])
      if (one && typeof one === 'object') names.set((one as Fields).id ?? null, nameIn(one as Fields))
  const all = (Array.isArray(value) ? value : []).map((item): Choice => {
    const id = Number(item && typeof item === 'object' ? (item as Fields).id : item)
    return { value: id, text: names.get(id) ?? `#${id}` }
  })
  return (
    <MultiChooser
      name={name}
      label={labelOf(field)}
      autocomplete={field.autocomplete}
      value={all}
      onChange={(chosen) => {
        for (const { value: id, text } of chosen) names.set(id, text)
        onChange(chosen.map((choice) => choice.value))
      }}
    />
  )
}

const INPUTS = { assignees: Assigned, assignee_groups: Assigned }

export function TaskPage() {
  const { path: here } = useHere()
  const id = here.split('/')[2] ?? ''
  return <Task key={id} id={id} />
}

function Task({ id }: { id: string }) {
  const path = `${TASKS}${id}/`
  const go = useGo()
  const described = useQuery(options(TASKS))
  const read = useQuery(instanceQuery(path))
  const [step, setStep] = useState<Exclude<Step, 'complete'> | undefined>()
  const [isDeleting, setIsDeleting] = useState(false)
  const [error, setError] = useState<unknown>()
  const task = read.data?.instance
  const canEdit = task !== undefined && (may(task, 'edit') || may(task, 'assign'))
  const [isEditing, setIsEditing] = useEditing(task && canEdit)
  useShortcuts([
    ...(canEdit && !isEditing ? [{ keys: 'e', text: t('edit'), run: () => setIsEditing(true) }] : []),
    ...(isEditing ? [] : [{ keys: 'Escape', text: t('back-to-list'), run: () => go('/tasks') }]),
  ])
  const reading = [read, described]
  if (!task || !read.data || !described.data) return <Reading of={reading} title={t('section.task')} />
  const details = described.data.details
  const form = formOf(task)
  const steps = stepsOf(task, session()?.user?.id)
  const canComplete = steps.includes('complete')
  const begin = (one: Step) => {
    if (one === 'reopen') performStep(task, one).catch(setError)
    else if (one !== 'complete') setStep(one)
  }
  const sendLinks = async () => {
    await call('POST', `${path}send-link/`)
    say(t('task.send-link.done'))
  }
  const remove = async () => {
    await call('DELETE', path, { ifMatch: read.data.etag })
    queries.removeQueries({ queryKey: [path] })
    void invalidate(TASKS)
    say(t('deleted'))
    go('/tasks')
  }
  const guests = ((task.assignees ?? []) as unknown as Reference[]).some(
    ({ account_type }) => account_type === 'one_time_completion',
  )
  const [first, ...others] = steps.filter((one) => one !== 'complete')
  const isPrimary = first === 'approve'
  const inMenu = first && !isPrimary && first !== 'reopen' ? [first, ...others] : others
  const more = inMenu.map(
    (one): Action => ({ id: one, text: t(`task.${one}`), isDangerous: one === 'cancel', run: () => begin(one) }),
  )
  if (canEdit && !isEditing) more.unshift({ id: 'edit', text: t('edit'), keys: 'e', run: () => setIsEditing(true) })
  if (guests && may(task, 'assign') && stateOf(task) === 'open')
    more.push({ id: 'link', text: t('task.send-link'), run: () => void sendLinks().catch(setError) })
  if (may(task, 'delete'))
    more.push({ id: 'delete', text: t('delete'), isDangerous: true, run: () => setIsDeleting(true) })
  const status = details.schema.find(({ alias }) => alias === 'status')
  return (
    <>
      <nav className={generic.trail} aria-label={t('trail')}>
        <Link to="/tasks">{t('tasks')}</Link>
      </nav>
      <header className={generic.head}>
        <h1 tabIndex={-1}>{`${task.name}`}</h1>
        <Value type="enum" values={status?.values} value={task.status} />
        {isLate(task) && <span className={look.late}>{t('task.late')}</span>}
        <div className={generic.spacer} />
        {first && (isPrimary || first === 'reopen') && (
          <Button {...(isPrimary && { look: 'primary' as const })} onPress={() => begin(first)}>
            {t(`task.${first}`)}
          </Button>
        )}
        {more.length > 0 && <Menu isOffered label={t('actions')} actions={more} />}
      </header>
      <Reading of={reading} />
      {error !== undefined && <Failure error={error} />}
      <div className={generic.detail}>
        <div className={generic.main}>
          {isEditing && (
            <Edit
              path={path}
              list={TASKS}
              sections={[{ title: 'section.task', fields: ['name', 'description', 'due_at', 'expires_at'] }]}
              hidden={may(task, 'assign') ? [] : ['assignees', 'assignee_groups']}
              inputs={INPUTS}
              read={read.data}
              details={details}
              onDone={() => setIsEditing(false)}
            />
          )}
          {/* The form remains meanwhile, with the typed answer. */}
          <div className={generic.main} hidden={isEditing}>
            <Asked task={task} form={form} />
            {canComplete && form.task_type !== undefined && (
              <Answer key={`${task.status} ${read.data.instance.completed_at}`} task={task} />
            )}
            {!canComplete && <Answered task={task} />}
            <Approval task={task} />
          </div>
        </div>
        <aside className={generic.side} aria-label={t('about')}>
          <About task={task} form={form} />
          <Timeline task={task} schema={details.schema} />
        </aside>
      </div>
      {step && <StepDialog task={task} step={step} onDone={() => setStep(undefined)} />}
      {isDeleting && (
        <AskFirst
          title={t('ask', { action: t('delete'), name: `${task.name}` })}
          text={t('task.deletes')}
          action={t('delete')}
          run={remove}
          onClose={() => setIsDeleting(false)}
        />
      )}
    </>
  )
}

/** The request of the task, and its instructions. */
function Asked({ task, form }: { task: Instance; form: Fields }) {
  const configuration = (form.configuration ?? {}) as Fields
  const texts = [task.description, form.prompt, task.instructions || configuration.instructions]
  const shown = texts.filter((text): text is string => typeof text === 'string' && text !== '')
  if (shown.length === 0) return null
  return (
    <section className={look.asked} aria-label={t('task.instructions')}>
      {shown.map((text) => (
        <p key={text} className={text === form.prompt ? look.prompt : generic.written}>
          {text}
        </p>
      ))}
    </section>
  )
}

/** The condition and the comment of the decision. */
function Approval({ task }: { task: Instance }) {
  const approval = task.approval as Fields | null
  if (!approval) return null
  const by = approval.by as unknown as Reference | null
  return (
    <section className={generic.section} aria-label={t('task.decision')}>
      <h2>{t('task.decision')}</h2>
      <dl className={generic.facts}>
        <dt>{t('task.decided-by')}</dt>
        <dd>
          {by ? nameOf(by) : t('the-system')}
          {' · '}
          <Moment value={`${approval.at}`} />
        </dd>
        {typeof approval.condition === 'string' && (
          <>
            <dt>{t('task.condition')}</dt>
            <dd>{approval.condition}</dd>
          </>
        )}
        {typeof approval.comment === 'string' && approval.comment && (
          <>
            <dt>{t('task.comment')}</dt>
            <dd>{approval.comment}</dd>
          </>
        )}
      </dl>
    </section>
  )
}

function About({ task, form }: { task: Instance; form: Fields }) {
  const isAdmin = session()?.permissions?.task_templates?.view === true
  const names = [
    ...((task.assignees ?? []) as unknown as Reference[]).map(nameOf),
    ...((task.assignee_groups ?? []) as Fields[]).map(({ name }) => `${name}`),
  ]
  const name = task._meta?.labels?.task_template
  const template = typeof name === 'string' ? name : `#${task.task_template}`
  const moment = (alias: string) => typeof task[alias] === 'string' && <Moment value={task[alias]} />
  return (
    <dl className={generic.facts}>
      <dt>{t('field.assignees')}</dt>
      <dd>{names.length > 0 ? names.join(', ') : <span className={generic.none}>{t('nobody-yet')}</span>}</dd>
      {task.due_at !== null && (
        <>
          <dt>{t('section.due')}</dt>
          <dd className={isLate(task) ? look.late : undefined}>{moment('due_at')}</dd>
        </>
      )}
      {task.expires_at !== null && (
        <>
          <dt>{t('field.expires_at')}</dt>
          <dd>{moment('expires_at')}</dd>
        </>
      )}
      {typeof task.completed_at === 'string' && (
        <>
          <dt>{t('field.completed_at')}</dt>
          <dd>
            {moment('completed_at')}
            {task.completed_by ? ` · ${nameOf(task.completed_by as unknown as Reference)}` : ''}
          </dd>
        </>
      )}
      <Record task={task} />
      <dt>{t('task-templates.one.title')}</dt>
      <dd>{isAdmin ? <Link to={`/admin/task-templates/${task.task_template}`}>{template}</Link> : template}</dd>
      <dt>{t('created')}</dt>
      <dd>
        {moment('created_at')}
        {task.created_by ? ` · ${nameOf(task.created_by as unknown as Reference)}` : ''}
      </dd>
      {form.approval_required === true && (
        <dd>
          <span className={css.tag}>{t('task.needs-approval')}</span>
        </dd>
      )}
    </dl>
  )
}

/** The record by its name, if the caller may view it. */
function Record({ task }: { task: Instance }) {
  const id = task.object_record
  if (typeof id !== 'number') return null
  const name = task._meta?.labels?.object_record
  return (
    <>
      <dt>{t('task.record')}</dt>
      <dd>
        {typeof name === 'string' ? (
          <Link to={`/records/-/${id}`}>{name}</Link>
        ) : (
          <Value type="relation" label={name} value={id} />
        )}
      </dd>
    </>
  )
}
