// Where traces, metrics and logs end up.
param workspaceName string
param componentName string
param location string
param tags object

resource workspace 'Microsoft.OperationalInsights/workspaces@2026-03-01' = {
  name: workspaceName
  location: location
  tags: tags
  properties: {
    sku: { name: 'PerGB2018' }
    retentionInDays: 30
    features: { enableLogAccessUsingOnlyResourcePermissions: true }
  }
}

resource component 'Microsoft.Insights/components@2020-02-02' = {
  name: componentName
  location: location
  tags: tags
  kind: 'web'
  properties: {
    Application_Type: 'web'
    WorkspaceResourceId: workspace.id
    IngestionMode: 'LogAnalytics'
    // The collector's exporter sends by connection string: it has no Entra ID sign-in
    // without an extension that is not published for its version.
    DisableLocalAuth: false
  }
}

output workspaceId string = workspace.id
output connectionString string = component.properties.ConnectionString
