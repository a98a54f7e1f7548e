// The steps of a task, by its state and the permissions of the caller.

import type { Fields, Instance } from '../../api/shapes.ts'

export const STATES = ['open', 'in_approval', 'completed', 'rejected', 'expired', 'canceled'] as const
export type State = (typeof STATES)[number]
export type Step = 'complete' | 'approve' | 'reject' | 'cancel' | 'reopen'

const BY_STATE: { [state in State]: Step[] } = {
  open: ['complete', 'cancel'],
  in_approval: ['approve', 'reject', 'cancel'],
  completed: ['reopen'],
  rejected: ['reopen'],
  expired: ['reopen'],
  canceled: ['reopen'],
}

export const stateOf = ({ status }: Instance): State => (STATES.includes(status as State) ? (status as State) : 'open')

/** The user who completed a task may not approve or reject it. */
export function stepsOf(task: Instance, me: number | undefined): Step[] {
  const permissions = task._meta?.permissions ?? {}
  const isMine = (task.completed_by as Fields | null)?.id === me
  return BY_STATE[stateOf(task)].filter((step) => {
    if (step === 'complete') return permissions.complete === true
    return permissions.edit === true && !(isMine && (step === 'approve' || step === 'reject'))
  })
}

const ENDS: { [step in Step]: State[] } = {
  complete: ['completed', 'in_approval'],
  approve: ['completed'],
  reject: ['rejected'],
  cancel: ['canceled'],
  reopen: ['open'],
}

/** The step that moves a task to a state; undefined without one. */
export const stepTo = (task: Instance, state: State, me: number | undefined): Step | undefined =>
  state === stateOf(task) ? undefined : stepsOf(task, me).find((step) => ENDS[step].includes(state))

/** True if the task is overdue. */
export const isLate = (task: Instance, now = Date.now()): boolean =>
  stateOf(task) === 'open' && typeof task.due_at === 'string' && Date.parse(task.due_at) < now
