// What somebody is told of. docs/operations.md says of each what it means and what
// to do. Names of metrics are held to the code by make infra-check.
param location string
param tags object
param actionGroupName string
param alertEmail string
param workspaceId string
param namespaceId string
param accountId string

resource group 'Microsoft.Insights/actionGroups@2023-01-01' = if (!empty(alertEmail)) {
  name: actionGroupName
  location: 'global'
  tags: tags
  properties: {
    enabled: true
    groupShortName: 'oneeffect'
    emailReceivers: [
      { name: 'operator', emailAddress: alertEmail, useCommonAlertSchema: true }
    ]
  }
}

var told = empty(alertEmail) ? [] : [group.id]
var toldByMetric = empty(alertEmail) ? [] : [{ actionGroupId: group.id }]

resource deadLetters 'Microsoft.Insights/metricAlerts@2026-01-01' = {
  name: 'dead letters'
  location: 'global'
  tags: tags
  properties: {
    description: 'A message was given up. Its reason says by whom, and what to do.'
    severity: 1
    enabled: true
    scopes: [namespaceId]
    evaluationFrequency: 'PT5M'
    windowSize: 'PT5M'
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          criterionType: 'StaticThresholdCriterion'
          name: 'dead letters'
          metricNamespace: 'Microsoft.ServiceBus/namespaces'
          metricName: 'DeadletteredMessages'
          timeAggregation: 'Average'
          operator: 'GreaterThan'
          threshold: 0
          dimensions: [
            { name: 'EntityName', operator: 'Include', values: ['tasks', 'task-events', 'reservations'] }
          ]
        }
      ]
    }
    actions: toldByMetric
  }
}

resource brokerThrottles 'Microsoft.Insights/metricAlerts@2026-01-01' = {
  name: 'broker throttles'
  location: 'global'
  tags: tags
  properties: {
    description: 'The namespace refuses requests: it has no capacity left.'
    severity: 2
    enabled: true
    scopes: [namespaceId]
    evaluationFrequency: 'PT5M'
    windowSize: 'PT15M'
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          criterionType: 'StaticThresholdCriterion'
          name: 'broker throttles'
          metricNamespace: 'Microsoft.ServiceBus/namespaces'
          metricName: 'ThrottledRequests'
          timeAggregation: 'Total'
          operator: 'GreaterThan'
          threshold: 100
        }
      ]
    }
    actions: toldByMetric
  }
}

resource storeThrottles 'Microsoft.Insights/metricAlerts@2026-01-01' = {
  name: 'store throttles'
  location: 'global'
  tags: tags
  properties: {
    description: 'The store answers 429: a container or a partition of it has no throughput left.'
    severity: 2
    enabled: true
    scopes: [accountId]
    evaluationFrequency: 'PT5M'
    windowSize: 'PT15M'
    criteria: {
      'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
      allOf: [
        {
          criterionType: 'StaticThresholdCriterion'
          name: 'store throttles'
          metricNamespace: 'Microsoft.DocumentDB/databaseAccounts'
          metricName: 'TotalRequests'
          timeAggregation: 'Count'
          operator: 'GreaterThan'
          threshold: 100
          dimensions: [
            { name: 'StatusCode', operator: 'Include', values: ['429'] }
          ]
        }
      ]
    }
    actions: toldByMetric
  }
}

resource outboxAge 'Microsoft.Insights/scheduledQueryRules@2026-03-01' = {
  name: 'outbox age'
  location: location
  tags: tags
  kind: 'LogAlert'
  properties: {
    displayName: 'outbox age'
    description: 'A task has waited for its message for more than five minutes: the relay does not get rid of it.'
    severity: 1
    enabled: true
    scopes: [workspaceId]
    evaluationFrequency: 'PT5M'
    windowSize: 'PT15M'
    // Tables are made by the first line that is written to them.
    skipQueryValidation: true
    criteria: {
      allOf: [
        {
          query: '''
AppMetrics
| where Name == 'oneeffect.orchestrator.outbox_age'
| summarize Age = max(Max) by AppRoleInstance
| where Age > 300
'''
          timeAggregation: 'Count'
          operator: 'GreaterThan'
          threshold: 0
          failingPeriods: { numberOfEvaluationPeriods: 1, minFailingPeriodsToAlert: 1 }
        }
      ]
    }
    autoMitigate: true
    actions: { actionGroups: told }
  }
}

resource fencedClaims 'Microsoft.Insights/scheduledQueryRules@2026-03-01' = {
  name: 'fenced claims'
  location: location
  tags: tags
  kind: 'LogAlert'
  properties: {
    displayName: 'fenced claims'
    description: 'More than ten owners in a quarter of an hour were overtaken while they worked: leases end before the work does.'
    severity: 2
    enabled: true
    scopes: [workspaceId]
    evaluationFrequency: 'PT5M'
    windowSize: 'PT15M'
    // Tables are made by the first line that is written to them.
    skipQueryValidation: true
    criteria: {
      allOf: [
        {
          query: '''
AppMetrics
| where Name == 'oneeffect.worker.claims' and tostring(Properties['oneeffect.outcome']) == 'fenced'
| summarize Fenced = sum(Sum)
| where Fenced > 10
'''
          timeAggregation: 'Count'
          operator: 'GreaterThan'
          threshold: 0
          failingPeriods: { numberOfEvaluationPeriods: 1, minFailingPeriodsToAlert: 1 }
        }
      ]
    }
    autoMitigate: true
    actions: { actionGroups: told }
  }
}

resource unknownOutcomes 'Microsoft.Insights/scheduledQueryRules@2026-03-01' = {
  name: 'unknown outcomes'
  location: location
  tags: tags
  kind: 'LogAlert'
  properties: {
    displayName: 'unknown outcomes'
    description: 'A task ended, and nobody knows whether its call took effect. A person must look at the downstream.'
    severity: 1
    enabled: true
    scopes: [workspaceId]
    evaluationFrequency: 'PT5M'
    windowSize: 'PT5M'
    // Tables are made by the first line that is written to them.
    skipQueryValidation: true
    criteria: {
      allOf: [
        {
          query: '''
AppMetrics
| where Name == 'oneeffect.servicebus.dead_letters' and tostring(Properties['oneeffect.reason']) in ('OutcomeUnknown', 'KeyWindowPassed')
| summarize Unknown = sum(Sum) by Reason = tostring(Properties['oneeffect.reason'])
| where Unknown > 0
'''
          timeAggregation: 'Count'
          operator: 'GreaterThan'
          threshold: 0
          failingPeriods: { numberOfEvaluationPeriods: 1, minFailingPeriodsToAlert: 1 }
        }
      ]
    }
    autoMitigate: true
    actions: { actionGroups: told }
  }
}

resource noHeartbeat 'Microsoft.Insights/scheduledQueryRules@2026-03-01' = {
  name: 'no heartbeat'
  location: location
  tags: tags
  kind: 'LogAlert'
  properties: {
    displayName: 'no heartbeat'
    description: 'No process of a kind has told of itself for ten minutes.'
    severity: 0
    enabled: true
    scopes: [workspaceId]
    evaluationFrequency: 'PT5M'
    windowSize: 'PT10M'
    // Tables are made by the first line that is written to them.
    skipQueryValidation: true
    criteria: {
      allOf: [
        {
          query: '''
datatable (Role: string) ['worker', 'orchestrator', 'projector']
| join kind=leftanti (AppMetrics | where TimeGenerated > ago(10m) | distinct Role = AppRoleName) on Role
'''
          timeAggregation: 'Count'
          operator: 'GreaterThan'
          threshold: 0
          failingPeriods: { numberOfEvaluationPeriods: 1, minFailingPeriodsToAlert: 1 }
        }
      ]
    }
    autoMitigate: true
    actions: { actionGroups: told }
  }
}
