import assert from 'node:assert/strict'
import test from 'node:test'
import { after, counts, planOf } from '../src/screens/task-templates/plan.ts'

const now = new Date('2026-01-31T09:30:00Z')
const day = (date: Date | undefined) => date?.toISOString().slice(0, 10)

test('a month later is the same day, else the last of that month', () => {
  assert.equal(after(now, { unit: 'months', count: 1 }).toISOString(), '2026-02-28T09:30:00.000Z')
  assert.equal(after(now, { unit: 'weeks', count: 2 }).toISOString(), '2026-02-14T09:30:00.000Z')
})

test('a plan says when a task is due and expires', () => {
  const plan = planOf(
    {
      complete_by: 'time_frame',
      complete_by_time_unit: 'weeks',
      complete_by_time_value: 2,
      expiry: 'annually',
      expiry_periodic_day: 31,
      expiry_periodic_month: 1,
      reminders: [
        { notice_type: 'before_expiry', time_unit: 'days', time_value: 1 },
        { notice_type: 'before_due', time_unit: 'days', time_value: 3 },
        {},
      ],
      renewals: [{}],
    },
    now,
  )
  assert.deepEqual(
    plan.lines.map(({ key }) => key),
    ['due-span', 'before_due', 'annually', 'before_expiry', 'renewed'],
  )
  assert.deepEqual([day(plan.due), day(plan.expires)], ['2026-02-14', '2026-01-31'])
})

test('the next such day is that of a shorter month, or of the next month or year', () => {
  const monthly = (at: string) => day(planOf({ expiry: 'monthly', expiry_day: 31 }, new Date(at)).expires)
  assert.equal(monthly('2026-02-01T00:00:00Z'), '2026-02-28')
  assert.equal(day(planOf({ expiry: 'monthly', expiry_day: 5 }, now).expires), '2026-02-05')
  const annually = { expiry: 'annually', expiry_periodic_day: 29, expiry_periodic_month: 1 }
  assert.equal(day(planOf(annually, now).expires), '2027-01-29')
})

test('an incomplete choice has no line', () => {
  assert.deepEqual(planOf({ complete_by: 'date', expiry: 'time_frame' }, now).lines, [])
})

test('a choice needs fields of its own', () => {
  assert.equal(counts('complete_by_date', { complete_by: 'date' }), true)
  assert.equal(counts('complete_by_date', { complete_by: 'asap' }), false)
  assert.equal(counts('name', {}), true)
})
