// Tasks by status, each a card: dragged to another status, or moved there by its menu.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { options, page } from '../../api/query.ts'
import { session } from '../../api/session.ts'
import type { Fields, Instance, Reference } from '../../api/shapes.ts'
import { Reading, sayError } from '../../generic/failure.tsx'
import generic from '../../generic/generic.module.css'
import { Link, useGo } from '../../generic/go.tsx'
import { type Action, Menu } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { say } from '../../kit/toasts.tsx'
import { Moment, nameOf, Value } from '../../kit/values.tsx'
import { t } from '../../texts.ts'
import { performStep, StepDialog, TASKS } from './step-dialog.tsx'
import { isLate, STATES, type State, type Step, stepsOf, stepTo } from './steps.ts'
import look from './tasks.module.css'

const SIZE = 20

export function Board({ parameters, listRoute }: { parameters: string; listRoute: string }) {
  const described = useQuery(options(TASKS))
  const go = useGo()
  const [dragged, setDragged] = useState<Instance | undefined>()
  const [openStep, setOpenStep] = useState<{ task: Instance; step: Exclude<Step, 'complete'> } | undefined>()
  const me = session()?.user?.id
  const texts = described.data?.list?.columns.find(({ alias }) => alias === 'status')?.values
  const begin = (task: Instance, step: Step) => {
    if (step === 'complete') go(`/tasks/${task.id}`)
    else if (step === 'reopen') performStep(task, step).catch(sayError)
    else setOpenStep({ task, step })
  }
  const drop = (state: State) => {
    if (!dragged) return
    const step = stepTo(dragged, state, me)
    if (step) begin(dragged, step)
    else if (dragged.status !== state) say(t('board.cannot'))
    setDragged(undefined)
  }
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <div className={look.board} tabIndex={0} role="region" aria-label={t('board')}>
      {STATES.map((state) => (
        <Column
          key={state}
          state={state}
          title={texts?.find(({ value }) => value === state)?.text ?? state}
          parameters={parameters}
          listRoute={listRoute}
          isTarget={dragged !== undefined && stepTo(dragged, state, me) !== undefined}
          onDrag={setDragged}
          onDrop={() => drop(state)}
          onStep={begin}
        />
      ))}
      {openStep && <StepDialog {...openStep} onDone={() => setOpenStep(undefined)} />}
    </div>
  )
}

function Column({
  state,
  title,
  parameters,
  listRoute,
  isTarget,
  onDrag,
  onDrop,
  onStep,
}: {
  state: State
  title: string
  parameters: string
  listRoute: string
  isTarget: boolean
  onDrag: (task: Instance | undefined) => void
  onDrop: () => void
  onStep: (task: Instance, step: Step) => void
}) {
  const ordering = state === 'open' || state === 'in_approval' ? 'due_at' : '-id'
  const all = `${parameters}${parameters && '&'}status=${state}`
  const tasksQuery = useQuery(page(TASKS, `${all}&ordering=${ordering}&limit=${SIZE}`))
  const count = tasksQuery.data?.filtered_count
  return (
    <section
      className={look.column}
      aria-label={title}
      data-target={isTarget || undefined}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault()
        onDrop()
      }}
    >
      <h2>
        {title} <span className={css.optional}>{count ?? ''}</span>
      </h2>
      <Reading of={[tasksQuery]} />
      {tasksQuery.data?.results.length === 0 && <p className={generic.none}>{t('board.empty')}</p>}
      <ul className={look.cards}>
        {tasksQuery.data?.results.map((task) => (
          <Card key={`${task.id}`} task={task} onDrag={onDrag} onStep={onStep} />
        ))}
      </ul>
      {tasksQuery.data?.next && <Link to={`${listRoute}?${all}`}>{t('show-all', { count: count ?? 0 })}</Link>}
    </section>
  )
}

function Card({
  task,
  onDrag,
  onStep,
}: {
  task: Instance
  onDrag: (task: Instance | undefined) => void
  onStep: (task: Instance, step: Step) => void
}) {
  const names = [
    ...((task.assignees ?? []) as unknown as Reference[]).map(nameOf),
    ...((task.assignee_groups ?? []) as Fields[]).map(({ name }) => `${name}`),
  ]
  const actions = stepsOf(task, session()?.user?.id).map(
    (step): Action => ({
      id: step,
      text: t(`task.${step}`),
      isDangerous: step === 'cancel',
      run: () => onStep(task, step),
    }),
  )
  return (
    <li
      className={look.card}
      draggable={actions.length > 0}
      onDragStart={(event) => {
        event.dataTransfer.effectAllowed = 'move'
        event.dataTransfer.setData('text/plain', `${task.name}`)
        onDrag(task)
      }}
      onDragEnd={() => onDrag(undefined)}
    >
      <div className={look.line}>
        <Link to={`/tasks/${task.id}`}>{`${task.name}`}</Link>
        {actions.length > 0 && <Menu label={t('actions-of', { name: `${task.name}` })} actions={actions} />}
      </div>
      {typeof task.object_record === 'number' && (
        <div className={generic.when}>
          <Value type="relation" label={task._meta?.labels?.object_record} value={task.object_record} isShort />
        </div>
      )}
      {typeof task.due_at === 'string' && (
        <div className={isLate(task) ? look.late : generic.when}>
          {isLate(task) ? `${t('task.late')}: ` : `${t('section.due')}: `}
          <Moment value={task.due_at} />
        </div>
      )}
      {names.length > 0 && (
        <div className={generic.when}>
          {names.slice(0, 3).join(', ')}
          {names.length > 3 && ` ${t('and-more', { count: names.length - 3 })}`}
        </div>
      )}
    </li>
  )
}
